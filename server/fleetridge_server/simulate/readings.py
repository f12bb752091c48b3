"""
What one gpu of a plan would read on one day: rates, clocks, limits, by the signs of its fault.

Pure, and the same for the same random source. Drawn is a gpu of the class of an H200; real products are scaled from it.
"""

import random
from dataclasses import dataclass, replace

from fleetridge.report import Regime
from fleetridge_server.engine.evidence import Factors, GpuHealth, RoofReading
from fleetridge_server.simulate.faults import Fault
from fleetridge_server.simulate.plan import GPUS_PER_NODE, Plan

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

_DRIVER = "580.95.05"
_OLD_DRIVER = "535.54.03"

_MEMORY_FAULTS = frozenset({"slow_memory", "ecc", "remapped_rows"})
_CLOCK_FAULTS = frozenset({"power_cap", "thermal", "power_brake", "low_clock"})

# Healthy gpus of one model differ for good by some tenths of a per cent.
_SPREAD = 0.004

# On an H200: 703 TFLOP/s for minutes where 842 are reached in bursts, which draw 60 % of the limit.
_SUSTAINED_OF_BURST = 0.835
_BURST_POWER = 0.6

_NEW_DRIVER = "590.44.01"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Readings of one run of a gpu of the class of an H200: of its judged rate in bfloat16, and of its memory."""

    factors: Factors
    health: GpuHealth
    pi: RoofReading
    beta: RoofReading


def drawn_run(
    fault: Fault | None, noise: float, rng: random.Random, *, pi_part: float = 1.0, beta_part: float = 1.0
) -> Drawn:
    """
    A run with the signs of a fault, if any.

    Args:
        fault: of the gpu.
        noise: between runs of one gpu, as a standard deviation in parts of the value.
        rng: source of chance.
        pi_part: of the usual rate, that the gpu reaches for good.
        beta_part: likewise.
    """
    pi_tflops, beta_gbps = _PI_TFLOPS * pi_part, _BETA_GBPS * beta_part
    if fault is not None and fault.name in _MEMORY_FAULTS:
        beta_gbps *= 1 - fault.loss
    elif fault is not None:
        pi_tflops *= 1 - fault.loss
    return Drawn(
        factors=_factors(fault),
        health=_health(fault),
        pi=_pi_reading(pi_tflops * rng.gauss(1, noise), fault, rng),
        beta=_beta_reading(beta_gbps * rng.gauss(1, noise), fault, rng),
    )


def _factors(fault: Fault | None) -> Factors:
    name = None if fault is None else fault.name
    return Factors(
        driver=_OLD_DRIVER if name == "old_driver" else _DRIVER,
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


class _Mean(random.Random):
    """A source without chance: every draw gives the mean."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:  # noqa: ARG002 # as the base
        return mu


# What a gpu without fault and chance reads.
_SOUND = drawn_run(None, 0.0, _Mean())


@dataclass(frozen=True, slots=True)
class Compute:
    """One judged compute roof."""

    dtype: str
    regime: Regime
    reading: RoofReading


@dataclass(frozen=True, slots=True)
class GpuDay:
    """Readings of one run, `memory` being the judged read, and other processes that used the gpu meanwhile."""

    factors: Factors
    health: GpuHealth
    computes: tuple[Compute, ...]
    memory: RoofReading
    other_processes: int


def gpu_day(plan: Plan, position: int, day: int) -> GpuDay:
    """Readings of a gpu on a day of a plan; the same for the same plan."""
    ask, silicon = plan.ask, plan.ask.silicon
    fault = plan.faults.get(position)
    signs = None if fault is None else fault.signs_on(day, ask.days)
    own = ask.random("gpu", position)
    pi_part, beta_part = own.gauss(1, _SPREAD), own.gauss(1, _SPREAD)
    is_upgraded = _day_is_upgraded(plan, position, day)
    if is_upgraded and plan.regression is not None:
        pi_part *= 1 - plan.regression.loss
    rng = ask.random("run", position, ask.day(day).isoformat())

    def draw() -> Drawn:
        rng.gauss(0, 1), rng.gauss(0, 1)  # without these two a seed would give another fleet than it always did
        return drawn_run(signs, ask.noise, rng)

    drawn = draw()
    computes = tuple(
        Compute(dtype, regime, _compute(draw().pi, plan, pi_part, dtype, regime))
        for dtype in silicon.dtypes
        for regime in ("burst", "sustained")
    )
    return GpuDay(
        factors=_day_factors(drawn.factors, plan, is_upgraded=is_upgraded),
        health=replace(
            drawn.health, pcie_generation=silicon.pcie_generation, pcie_generation_max=silicon.pcie_generation
        ),
        computes=computes,
        memory=_memory(drawn.beta, plan, beta_part),
        other_processes=1 if plan.has(position, "contention") else 0,
    )


def _day_is_upgraded(plan: Plan, position: int, day: int) -> bool:
    regression = plan.regression
    if regression is None or position // GPUS_PER_NODE not in plan.upgraded:
        return False
    return day >= regression.first_day(plan.ask.days)


def _day_factors(drawn: Factors, plan: Plan, *, is_upgraded: bool) -> Factors:
    limit_w = _scaled(drawn.power_limit_w, _SOUND.factors.power_limit_w, plan.ask.silicon.power_limit_w)
    return drawn._replace(power_limit_w=limit_w, driver=_NEW_DRIVER if is_upgraded else drawn.driver)


def _compute(drawn: RoofReading, plan: Plan, part: float, dtype: str, regime: Regime) -> RoofReading:
    silicon, sound = plan.ask.silicon, _SOUND.pi
    is_burst = regime == "burst"
    rate = silicon.pi_tflops(dtype) * part * (1.0 if is_burst else _SUSTAINED_OF_BURST)
    clock_mhz = silicon.sm_clock_max_mhz if is_burst else silicon.sustained_clock_mhz
    power_w = silicon.power_limit_w * (_BURST_POWER if is_burst else 1.0)
    return replace(
        drawn,
        value=rate * drawn.value / sound.value,
        sm_clock_mhz=_scaled(drawn.sm_clock_mhz, sound.sm_clock_mhz, clock_mhz),
        memory_clock_mhz=silicon.memory_clock_max_mhz,
        power_w=_scaled(drawn.power_w, sound.power_w, power_w),
    )


def _memory(drawn: RoofReading, plan: Plan, part: float) -> RoofReading:
    silicon, sound = plan.ask.silicon, _SOUND.beta
    return replace(
        drawn,
        value=silicon.beta_gbps * part * drawn.value / sound.value,
        sm_clock_mhz=_scaled(drawn.sm_clock_mhz, sound.sm_clock_mhz, silicon.sm_clock_max_mhz),
        memory_clock_mhz=_scaled(drawn.memory_clock_mhz, sound.memory_clock_mhz, silicon.memory_clock_max_mhz),
        power_w=_scaled(drawn.power_w, sound.power_w, _BURST_POWER * silicon.power_limit_w),
    )


def _scaled(drawn: float | None, sound: float | None, nominal: float) -> float | None:
    """Reading of this product that differs from its usual one as the drawn one does from the sound one."""
    return None if drawn is None or sound is None else nominal * drawn / sound
