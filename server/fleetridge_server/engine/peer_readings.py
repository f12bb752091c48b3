"""
Readings of a gpu beside those of its group: medians, majorities, and how far the gpu lies below them.

A reading that one of the two lacks is no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.groups import level_name
from fleetridge_server.engine.rule import FEWEST_PEERS
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.values import Member, Run
from fleetridge_server.engine.verdict import Verdict
from fleetridge_server.engine.wording import Fact, number_fact

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
    "application_sm_clock_mhz": lambda run: run.report.health.application_sm_clock_mhz,
}


@dataclass(frozen=True, slots=True)
class Peers:
    """
    Medians and majorities over the newest runs of a group.

    Attributes:
        numbers: median of every reading that at least four gpus have.
        factors: most common level of every factor that more than half of the gpus share.
        throttle_ms: median of each throttle counter over the gpus that have counters.
        throttle_bits: reasons that the driver shows, without counting how long, on more than half of the gpus.
    """

    numbers: Mapping[str, float]
    factors: Mapping[str, str]
    throttle_ms: Mapping[str, float]
    throttle_bits: frozenset[str] = frozenset()


def peers_of(members: Sequence[Member]) -> Peers:
    """Readings of a group's members."""
    runs = [member.newest for member in members]
    numbers: dict[str, float] = {}
    for name, read in NUMBERS.items():
        values = [value for run in runs if (value := read(run)) is not None]
        if len(values) >= FEWEST_PEERS:
            numbers[name] = median(values)
    return Peers(numbers, _majorities(runs), _throttle_medians(runs), _common_bits(runs))


def _common_bits(runs: Sequence[Run]) -> frozenset[str]:
    counts = Counter(name for run in runs for name in run.report.health.throttle_reasons or ())
    return frozenset(name for name, count in counts.items() if 2 * count > len(runs))


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


def difference(verdict: Verdict, peers: Peers, name: str) -> float:
    """Peers' reading less the gpu's own; 0 where either is missing."""
    own, usual = NUMBERS[name](verdict.member.newest), peers.numbers.get(name)
    return 0.0 if own is None or usual is None else usual - own


def part_below(verdict: Verdict, peers: Peers, name: str) -> float:
    """Part by which a gpu's reading lies below its peers'; 0 where either is missing."""
    usual = peers.numbers.get(name)
    return difference(verdict, peers, name) / usual if usual else 0.0


def is_known(verdict: Verdict, peers: Peers, name: str) -> bool:
    """Whether a reading of the gpu can be set beside that of its peers."""
    return name in peers.numbers and NUMBERS[name](verdict.member.newest) is not None


def facts_of(verdict: Verdict, peers: Peers, names: Iterable[str]) -> tuple[Fact, ...]:
    """Readings of the gpu beside its peers', those that both have."""
    found: list[Fact] = []
    for name in names:
        own, usual = NUMBERS[name](verdict.member.newest), peers.numbers.get(name)
        if own is not None and usual is not None:
            found.append(number_fact(name, own, usual))
    return tuple(found)
