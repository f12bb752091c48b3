"""
Simulated fleets: gpus of one device, some with a named fault, as their reports would describe them.

Pure, and the same for the same random source. By these detection is scored: what is wrong is known. Each fault kind
says what it is called, what it costs, when it begins, whom it befalls and which verdict it should lead to; its signs
in the readings (clocks, throttle counters, limits) are made with the reports.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from fleetridge.judged import JUDGED_LEVEL, READ_STREAM, REFERENCE_GEMM
from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import SIMULATED, Conditions
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, NodeName, RoofReading

FaultName = Literal[
    "power_cap", "thermal", "power_brake", "low_clock", "slow_memory", "ecc", "remapped_rows", "falling", "old_driver",
    "silent",
]  # fmt: skip

PI = RoofKey("compute", "bfloat16", None, None, "burst", JUDGED_LEVEL, REFERENCE_GEMM)
BETA = RoofKey("memory", "uint8", None, None, "burst", JUDGED_LEVEL, READ_STREAM)

_CONDITIONS = Conditions(
    memory_bytes=141 * 1024**3,
    sm_count=132,
    mig_profile=None,
    partition=None,
    fill="normal",
    method="standard",
    protocol_version=1,
)
_GPUS_PER_NODE = 8
_NODES_PER_RACK = 4

# A gpu of the class of an H200 under full load.
_PI_TFLOPS = 800.0
_BETA_GBPS = 4400.0
_SM_CLOCK_MHZ = 1500.0
_MEMORY_CLOCK_MHZ = 3201.0
_POWER_LIMIT_W = 700.0
_TEMPERATURE_C = 65.0

# How far readings of healthy gpus scatter: clocks by a few tenths of a per cent, temperatures by slot.
_CLOCK_SPREAD = 0.002
_POWER_SPREAD = 0.005
_TEMPERATURE_SPREAD_C = 2.0
_TREND_SPREAD = 0.004

# What the newer driver of a half upgraded fleet costs.
UPGRADE_LOSS = 0.05
_DRIVER = "580.95.05"
_NEWER_DRIVER = "590.44.01"
_OLD_DRIVER = "535.54.03"

_MEMORY_FAULTS = frozenset({"slow_memory", "ecc", "remapped_rows"})
_CLOCK_FAULTS = frozenset({"power_cap", "thermal", "power_brake", "low_clock"})


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a gpu, and the part of pi (of beta, for faults of memory) that it costs."""

    name: FaultName
    loss: float


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """
    A fleet to simulate.

    Attributes:
        gpus: how many.
        noise: between runs of one gpu, as a standard deviation in parts of the value.
        faults: by position of the gpu.
        spread: of healthy gpus, for good, on top of the noise.
        upgraded: whether every second gpu runs a newer driver that costs UPGRADE_LOSS of pi.
        reports: of each gpu, a day apart.
    """

    gpus: int
    noise: float
    faults: Mapping[int, Fault] = field(default_factory=dict)
    spread: float = 0.0
    upgraded: bool = False
    reports: int = 3


def gpu_id(position: int) -> str:
    """Id of a simulated gpu."""
    return f"GPU-simulated-{position:06d}"


def simulated_reports(plan: FleetPlan, first_at: datetime, rng: random.Random) -> Iterator[JudgedReport]:
    """Reports of a fleet, gpu by gpu, oldest first."""
    for position in range(plan.gpus):
        fault = plan.faults.get(position)
        pi_tflops, beta_gbps = _true_rates(plan, position, fault, rng)
        node = position // _GPUS_PER_NODE
        for day in range(plan.reports):
            yield JudgedReport(
                report_id=f"{position:06d}-{day:04d}",
                gpu_id=gpu_id(position),
                ordered_at=first_at + timedelta(days=day),
                conditions=_CONDITIONS,
                node=NodeName(SIMULATED, f"node-{node:05d}"),
                rack=f"rack-{node // _NODES_PER_RACK:04d}",
                factors=_factors(plan, position, fault),
                health=_health(fault),
                roofs={
                    PI: _pi_reading(pi_tflops * rng.gauss(1, plan.noise), fault, rng),
                    BETA: _beta_reading(beta_gbps * rng.gauss(1, plan.noise), fault, rng),
                },
            )


def _true_rates(plan: FleetPlan, position: int, fault: Fault | None, rng: random.Random) -> tuple[float, float]:
    pi_tflops = _PI_TFLOPS * rng.gauss(1, plan.spread)
    beta_gbps = _BETA_GBPS * rng.gauss(1, plan.spread)
    if _is_upgraded(plan, position):
        pi_tflops *= 1 - UPGRADE_LOSS
    if fault is None:
        return pi_tflops, beta_gbps
    if fault.name in _MEMORY_FAULTS:
        return pi_tflops, beta_gbps * (1 - fault.loss)
    return pi_tflops * (1 - fault.loss), beta_gbps


def _is_upgraded(plan: FleetPlan, position: int) -> bool:
    return plan.upgraded and position % 2 == 0


def _factors(plan: FleetPlan, position: int, fault: Fault | None) -> Factors:
    name = None if fault is None else fault.name
    driver = _NEWER_DRIVER if _is_upgraded(plan, position) else _DRIVER
    return Factors(
        driver=_OLD_DRIVER if name == "old_driver" else driver,
        torch="2.9.0",
        cublas="13.0.2",
        power_limit_w=_POWER_LIMIT_W * (0.7 if name == "power_cap" else 1),
        ecc_enabled=name == "ecc",
        vbios="96.00.A0.00.01",
    )


def _health(fault: Fault | None) -> GpuHealth:
    return GpuHealth(
        remapped_rows_pending=fault is not None and fault.name == "remapped_rows",
        remapped_rows_uncorrectable=0,
        ecc_uncorrected=0,
        pcie_generation=5,
        pcie_width=16,
        pcie_generation_max=5,
        pcie_width_max=16,
    )


def _pi_reading(value: float, fault: Fault | None, rng: random.Random) -> RoofReading:
    name, loss = ("", 0.0) if fault is None else (fault.name, fault.loss)
    clock_loss = loss if name in _CLOCK_FAULTS else 0.0
    power_part = {"power_cap": 0.7, "thermal": 1 - 1.5 * loss, "power_brake": 0.8, "low_clock": 1 - loss}.get(name, 1.0)
    throttle_ms = {"sw_power_cap": max(0.0, rng.gauss(900, 30))}
    if name == "thermal":
        throttle_ms["sw_thermal_slowdown"] = rng.gauss(600, 30)
    if name == "power_brake":
        throttle_ms["hw_power_brake_slowdown"] = rng.gauss(500, 30)
    return RoofReading(
        value,
        converged=True,
        trend=rng.gauss(-2 * loss if name == "falling" else 0.0, _TREND_SPREAD),
        sm_clock_mhz=_SM_CLOCK_MHZ * (1 - clock_loss) * rng.gauss(1, _CLOCK_SPREAD),
        memory_clock_mhz=_MEMORY_CLOCK_MHZ,
        power_w=_POWER_LIMIT_W * power_part * rng.gauss(1, _POWER_SPREAD),
        temperature_c=rng.gauss(88.0 if name == "thermal" else _TEMPERATURE_C, _TEMPERATURE_SPREAD_C),
        throttle_ms=throttle_ms,
    )


def _beta_reading(value: float, fault: Fault | None, rng: random.Random) -> RoofReading:
    slow = fault.loss if fault is not None and fault.name == "slow_memory" else 0.0
    return RoofReading(
        value,
        converged=True,
        trend=rng.gauss(0.0, _TREND_SPREAD),
        sm_clock_mhz=_SM_CLOCK_MHZ * rng.gauss(1, _CLOCK_SPREAD),
        memory_clock_mhz=_MEMORY_CLOCK_MHZ * (1 - slow),
        power_w=0.6 * _POWER_LIMIT_W * rng.gauss(1, _POWER_SPREAD),
        temperature_c=rng.gauss(_TEMPERATURE_C, _TEMPERATURE_SPREAD_C),
        throttle_ms={},
    )


ExpectedVerdict = Literal["slow", "drifted", "contended", "missing", "ok"]

# Well past the effect gate of 3 %, well below the losses that nobody could overlook.
_USUAL_LOSS = 0.08

# Fewer than so many parts of a fleet's values are not called slow by any rule; a label on them would be unfair.
_SURE_LOSS = 0.05


@dataclass(frozen=True, slots=True)
class FaultKind:
    """
    A fault by name.

    Attributes:
        what: for people.
        signs: whose readings a gpu shows; None where the readings stay sound.
        expected: what a verdict should come to.
        befalls_nodes: whether it takes whole nodes, and is counted in them.
        loss: of pi (of beta for faults of memory) where none is asked for.
        begins: part of the history after which it sets in.
        creeps: whether the loss grows from nothing to its full size.
    """

    what: str
    signs: FaultName | None
    expected: ExpectedVerdict = "slow"
    befalls_nodes: bool = False
    loss: float = _USUAL_LOSS
    begins: float = 0.0
    creeps: bool = False


FAULTS: Mapping[str, FaultKind] = {
    "power_cap": FaultKind("power limit set too low", "power_cap"),
    "thermal": FaultKind("too hot, the clock gives way", "thermal"),
    "power_brake": FaultKind("held back by the power brake signal", "power_brake"),
    "low_clock": FaultKind("lower clock for no visible reason", "low_clock"),
    "slow_memory": FaultKind("memory clock too low", "slow_memory"),
    "ecc": FaultKind("ECC differs from its peers', and memory is slower", "ecc"),
    "remapped_rows": FaultKind("memory repair waits for a reset", "remapped_rows"),
    "falling": FaultKind("rate falls within each run", "falling"),
    "old_driver": FaultKind("runs a driver older than its peers'", "old_driver"),
    "silent": FaultKind("slow, and no reading says why", "silent"),
    "drift": FaultKind("slower from day to day", "silent", expected="drifted", begins=0.4, creeps=True),
    "bad_node": FaultKind("all gpus of the node run hot and slow", "thermal", befalls_nodes=True),
    "driver_regression": FaultKind(
        "new driver halfway through, slower on purpose",
        None,
        expected="ok",
        befalls_nodes=True,
        loss=0.05,
        begins=0.5,
    ),
    "contention": FaultKind("another process uses the gpu during every run", "silent", expected="contended", loss=0.2),
    "duplicates": FaultKind("every report is sent twice", None, expected="ok", loss=0.0),
    "clock_skew": FaultKind(
        "the node's clock is a year ahead", None, expected="ok", befalls_nodes=True, loss=0.0
    ),
    "missing": FaultKind("gone from its node for the last quarter", None, expected="missing", loss=0.0, begins=0.75),
}  # fmt: skip


class FaultError(ValueError):
    """A fault that nobody can simulate; the message says which there are."""


@dataclass(frozen=True, slots=True)
class Order:
    """A fault that was asked for: how often, in gpus or whole nodes (None as usual), and how much it costs."""

    name: str
    count: int | None
    loss: float

    @property
    def kind(self) -> FaultKind:
        """What it is."""
        return FAULTS[self.name]

    def first_day(self, days: int) -> int:
        """Day of a history on which it sets in, counted from 0."""
        return int(self.kind.begins * days)

    def loss_on(self, day: int, days: int) -> float:
        """Part of the rate that it costs on a day of a history."""
        first = self.first_day(days)
        if day < first:
            return 0.0
        return self.loss * (day - first + 1) / (days - first) if self.kind.creeps else self.loss

    def signs_on(self, day: int, days: int) -> Fault | None:
        """Signs that a gpu's readings show on a day; None for sound ones."""
        loss = self.loss_on(day, days)
        return None if self.kind.signs is None or loss == 0.0 else Fault(self.kind.signs, loss)

    @property
    def label(self) -> str:
        """What a judge of verdicts may hold against them."""
        if self.kind.expected == "ok":
            return "ok_must_not_flag"
        is_sure = self.kind.expected in {"slow", "drifted"} and self.loss >= _SURE_LOSS
        return "slow_must_flag" if is_sure else "grey"


def order_of(text: str) -> Order:
    """
    Fault from its spelling on a command line, `NAME[:COUNT[:LOSS]]`, such as `thermal:2:0.08`.

    Raises:
        FaultError: no such fault, a count below 1, or a loss outside 0 to 0.9.
    """
    name, *numbers = text.strip().split(":")
    name = name.replace("-", "_")
    if name not in FAULTS or len(numbers) > 2:  # noqa: PLR2004 # count and loss
        raise FaultError(f"unknown fault {text!r}; write NAME[:COUNT[:LOSS]] with one of {', '.join(sorted(FAULTS))}")
    count = _count(numbers[0], text) if numbers else None
    return Order(name, count, _loss(numbers[1], text) if len(numbers) > 1 else FAULTS[name].loss)


def _count(word: str, text: str) -> int | None:
    if not word:
        return None
    if not word.isdecimal() or int(word) < 1:
        raise FaultError(f"{text!r}: the count is {word!r}; write a whole number from 1 on, as in thermal:2")
    return int(word)


def _loss(word: str, text: str) -> float:
    try:
        loss = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        loss = -1.0
    if not 0 < loss <= 0.9:  # noqa: PLR2004 # a gpu that loses more is not slow but broken
        raise FaultError(f"{text!r}: the loss is {word!r}; write a part of the rate, as in thermal:2:0.08 or 8%")
    return loss
