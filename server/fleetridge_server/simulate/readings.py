"""What one gpu of a plan would read on one day: rates, clocks, limits, by the signs of its fault."""

import random
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from fleetridge.report import Regime
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, RoofReading
from fleetridge_server.simulate.fleet import BETA, PI, Fault, FleetPlan, simulated_reports
from fleetridge_server.simulate.plan import GPUS_PER_NODE, Plan

# Healthy gpus of one model differ for good by some tenths of a per cent.
_SPREAD = 0.004

# On an H200: 703 TFLOP/s for minutes where 842 are reached in bursts, which draw 60 % of the limit.
_SUSTAINED_OF_BURST = 0.835
_BURST_POWER = 0.6

_NEW_DRIVER = "590.44.01"


class _Mean(random.Random):
    """A source without chance: every draw gives the mean."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:  # noqa: ARG002 # as the base
        return mu


_ANY_TIME = datetime(2000, 1, 1, tzinfo=timezone.utc)


def _drawn(signs: Fault | None, noise: float, rng: random.Random) -> JudgedReport:
    fleet = FleetPlan(gpus=1, noise=noise, faults={} if signs is None else {0: signs}, reports=1)
    return next(simulated_reports(fleet, _ANY_TIME, rng))


# What a gpu without fault and chance reads there; real products are scaled from it.
_SOUND = _drawn(None, 0.0, _Mean())


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
    drawn = _drawn(signs, ask.noise, rng)
    computes = tuple(
        Compute(dtype, regime, _compute(_drawn(signs, ask.noise, rng).roofs[PI], plan, pi_part, dtype, regime))
        for dtype in silicon.dtypes
        for regime in ("burst", "sustained")
    )
    return GpuDay(
        factors=_day_factors(drawn.factors, plan, is_upgraded=is_upgraded),
        health=replace(
            drawn.health, pcie_generation=silicon.pcie_generation, pcie_generation_max=silicon.pcie_generation
        ),
        computes=computes,
        memory=_memory(drawn.roofs[BETA], plan, beta_part),
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
    silicon, sound = plan.ask.silicon, _SOUND.roofs[PI]
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
    silicon, sound = plan.ask.silicon, _SOUND.roofs[BETA]
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
