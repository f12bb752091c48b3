"""What the gpus of a group say of themselves, so that one of them can be held beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetridge_server.compare.cohort import FEWEST_PEERS
from fleetridge_server.compare.stats import median
from fleetridge_server.verdict.evidence import Factors
from fleetridge_server.verdict.levels import level_name
from fleetridge_server.verdict.members import Member, Run

_MHZ_PER_GHZ = 1000

Reader = Callable[[Run], float | None]


def _per_ghz(run: Run) -> float | None:
    clock_mhz = run.reading.sm_clock_mhz
    return run.reading.value / clock_mhz * _MHZ_PER_GHZ if clock_mhz else None


NUMBERS: Mapping[str, Reader] = {
    "power_limit_w": lambda run: run.report.factors.power_limit_w,
    "power_w": lambda run: run.reading.power_w,
    "sm_clock_mhz": lambda run: run.reading.sm_clock_mhz,
    "memory_clock_mhz": lambda run: run.reading.memory_clock_mhz,
    "temperature_c": lambda run: run.reading.temperature_c,
    "trend": lambda run: run.reading.trend,
    "per_ghz": _per_ghz,
    "pcie_generation": lambda run: run.report.health.pcie_generation,
    "pcie_width": lambda run: run.report.health.pcie_width,
}

# Of these, what a device says of itself while it is timed: without any of it a loss cannot be explained.
EVIDENCE = ("power_w", "sm_clock_mhz", "memory_clock_mhz", "temperature_c")


@dataclass(frozen=True, slots=True)
class Peers:
    """
    Medians and majorities over the newest runs of a group.

    Attributes:
        numbers: median of every reading that at least four gpus have.
        factors: most common level of every factor that more than half of the gpus share.
        throttle_ms: median of each throttle counter over the gpus that have counters.
    """

    numbers: Mapping[str, float]
    factors: Mapping[str, str]
    throttle_ms: Mapping[str, float]


def peers_of(members: Sequence[Member]) -> Peers:
    """Readings of a group's members."""
    runs = [member.newest for member in members]
    numbers: dict[str, float] = {}
    for name, read in NUMBERS.items():
        values = [value for run in runs if (value := read(run)) is not None]
        if len(values) >= FEWEST_PEERS:
            numbers[name] = median(values)
    return Peers(numbers, _majorities(runs), _throttle_medians(runs))


def _majorities(runs: Sequence[Run]) -> dict[str, str]:
    found: dict[str, str] = {}
    # A fleet has few settings, each of them many times.
    settings = Counter(run.report.factors for run in runs)
    for position, factor in enumerate(Factors._fields):
        counts: Counter[str] = Counter()
        for setting, count in settings.items():
            counts[level_name(setting[position])] += count
        name, count = max(counts.items(), key=lambda item: (item[1], item[0]))
        if 2 * count > len(runs):
            found[factor] = name
    return found


def _throttle_medians(runs: Iterable[Run]) -> dict[str, float]:
    counters = [run.reading.throttle_ms for run in runs if run.reading.throttle_ms is not None]
    names = sorted({name for counter in counters for name in counter})
    return {name: median(counter.get(name, 0.0) for counter in counters) for name in names}
