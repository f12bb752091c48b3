"""
Fleets that do not exist: gpus of one device, some with a named fault, as their reports would describe them.

Pure, and the same for the same random source. By these detection is scored: what is wrong is known.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.verdict.evidence import Factors, Health, JudgedReport, NodeName, RoofReading

FaultName = Literal[
    "power_cap",
    "thermal",
    "power_brake",
    "low_clock",
    "slow_memory",
    "ecc",
    "remapped_rows",
    "falling",
    "old_driver",
    "silent",
]

CLUSTER = "simulated"

PI = RoofKey("compute", "bfloat16", None, None, "burst", "device", "gemm_reference")
BETA = RoofKey("memory", "uint8", None, None, "burst", "device", "read")

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
                node=NodeName(CLUSTER, f"node-{node:05d}"),
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


def _health(fault: Fault | None) -> Health:
    return Health(
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
