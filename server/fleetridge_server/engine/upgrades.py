"""
What upgrades did, from the past of each gpu, and the groups of a cohort beside one another.

- What a change of a factor did: every gpu paired with itself, before and after. The Hodges–Lehmann estimate on log
  ratios with the interval of Wilcoxon's signed-rank test (Hollander, Wolfe and Chicken, Nonparametric Statistical
  Methods, 3.2 and 3.3): the median of all means of two ratios, a ratio with itself included. A gpu that broke on the
  same day moves it little.
- Groups at the levels of one factor (`grouped_cohorts`). Each holds other gpus, so that a difference is also one
  between their nodes; where gpus met a change themselves, the pairs above say more.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.drift import DriftSample
from fleetridge_server.engine.evidence import Factors, JudgedReport
from fleetridge_server.engine.groups import Level, level_name
from fleetridge_server.engine.rule import FEWEST_PEERS, NEWEST_REPORTS
from fleetridge_server.engine.statistics import Distribution, distribution, median, scale_floor
from fleetridge_server.engine.values import members_by_cohort

_CONFIDENCE = 0.95
_Z_95 = 1.96

# Up to here the distribution of signed ranks is counted out; beyond, it is normal to four digits.
_COUNTED_OUT = 50

# Halvings until an interval of doubles cannot be halved further.
_MOST_HALVINGS = 200


@dataclass(frozen=True, slots=True)
class PairedEffect:
    """
    Change of a group of gpus, each against itself.

    Attributes:
        n: pairs.
        effect: after over before, less 1.
        low, high: interval of the effect.
        confidence: of the interval; below 95 % for fewer than six pairs, whose widest interval it is.
    """

    n: int
    effect: float
    low: float
    high: float
    confidence: float


class EpochChange(NamedTuple):
    """A factor that changed, from one level to another."""

    before: Level
    after: Level


def paired_effect(pairs: Sequence[tuple[float, float]]) -> PairedEffect:
    """Effect from values before and after, above 0, of at least one gpu. Raises ValueError: no pairs."""
    if not pairs:
        raise ValueError("no pairs: ask for an effect where at least one gpu was measured before and after")
    logs = sorted(math.log(after / before) for before, after in pairs)
    n = len(logs)
    averages = n * (n + 1) // 2
    rank, confidence = _interval_rank(n)
    middle = (_average_of_rank(logs, (averages + 1) // 2) + _average_of_rank(logs, averages // 2 + 1)) / 2
    return PairedEffect(
        n=n,
        effect=math.expm1(middle),
        low=math.expm1(_average_of_rank(logs, rank)),
        high=math.expm1(_average_of_rank(logs, averages + 1 - rank)),
        confidence=confidence,
    )


def epoch_effects(histories: Mapping[str, Sequence[DriftSample]]) -> dict[EpochChange, PairedEffect]:
    """Effects of the newest change of each factor that at least four gpus met, in one roof; looks are oldest first."""
    pairs: dict[EpochChange, list[tuple[float, float]]] = defaultdict(list)
    for looks in histories.values():
        for change, pair in _changes(looks):
            pairs[change].append(pair)
    return {change: paired_effect(found) for change, found in sorted(pairs.items()) if len(found) >= FEWEST_PEERS}


def _changes(looks: Sequence[DriftSample]) -> Iterable[tuple[EpochChange, tuple[float, float]]]:
    """Newest change between two epochs, once for every factor that changed, with the values around it."""
    cut = len(looks) - 1
    while cut > 0 and looks[cut].epoch.continues(looks[cut - 1].epoch):
        cut -= 1
    if cut < 1 or looks[cut].epoch.conditions != looks[cut - 1].epoch.conditions:
        return
    before = median(look.value for look in looks[max(0, cut - NEWEST_REPORTS) : cut])
    after = median(look.value for look in looks[cut : cut + NEWEST_REPORTS])
    old, new = looks[cut - 1].epoch.factors, looks[cut].epoch.factors
    for factor, was, became in zip(Factors._fields, old, new, strict=True):
        if was is not None and became is not None and was != became:
            change = EpochChange(Level(factor, level_name(was)), Level(factor, level_name(became)))
            yield change, (before, after)


def _interval_rank(n: int) -> tuple[int, float]:
    """Rank k of the means that bound the interval from below and above, and its confidence."""
    if n > _COUNTED_OUT:
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(1, round(n * (n + 1) / 4 - _Z_95 * spread)), _CONFIDENCE
    counts = _signed_rank_counts(n)
    total = 2.0**n
    below = rank = 0
    while 1 - 2 * (below + counts[rank]) / total >= _CONFIDENCE:
        below += counts[rank]
        rank += 1
    # The widest interval leaves out nothing but what lies outside all means.
    return (rank, 1 - 2 * below / total) if rank else (1, 1 - 2 * counts[0] / total)


def _signed_rank_counts(n: int) -> list[int]:
    """Number of the 2ⁿ ways of signs in which the ranks (1 to n) with a plus add up to each sum from 0 on."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return counts


def _average_of_rank(ordered: Sequence[float], rank: int) -> float:
    """The rank-th smallest mean of two values, by halving: n steps a count instead of n² means."""
    low, high = ordered[0], ordered[-1]
    for _ in range(_MOST_HALVINGS):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        if _averages_up_to(ordered, middle) >= rank:
            high = middle
        else:
            low = middle
    return low if _averages_up_to(ordered, low) >= rank else high


def _averages_up_to(ordered: Sequence[float], bound: float) -> int:
    """How many means of two values, each pair once and each value with itself, are at most `bound`."""
    count = 0
    right = len(ordered) - 1
    twice = 2 * bound
    for left, value in enumerate(ordered):
        while right >= left and value + ordered[right] > twice:
            right -= 1
        if right < left:
            break
        count += right - left + 1
    return count


def floors(histories: Mapping[str, Sequence[JudgedReport]], as_of: datetime) -> dict[Cohort, float]:
    """Smallest scale of every cohort, as a fraction."""
    return {
        cohort: scale_floor([run.value for run in member.runs[:NEWEST_REPORTS]] for member in members)
        for cohort, members in members_by_cohort(histories, as_of).items()
    }


_MEDIAN_ERROR = math.sqrt(math.pi / 2)

# Quartiles of a normal distribution lie so many standard deviations apart.
_QUARTILES_APART = 1.349

# Clocks and temperatures move every gpu by some tenths of a per cent, however alike the values of a few are.
_LEAST_SPREAD = 0.005


class Difference(NamedTuple):
    """Median of a group over that of the reference, less 1, with its 95 % interval."""

    effect: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FactorGroup:
    """
    Gpus of a cohort at one level, and the difference from the reference group.

    None for that itself, and where one of the two has fewer than four gpus.
    """

    level: str
    values: Distribution
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class GroupedCohort:
    """A cohort with its groups, the largest (the reference) first."""

    cohort: Cohort
    groups: tuple[FactorGroup, ...]


def grouped_cohorts(values: Iterable[tuple[Cohort, float, str]]) -> list[GroupedCohort]:
    """Judged cohorts with their groups, in no order."""
    members: dict[Cohort, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cohort, value, level in values:
        members[cohort][level].append(value)
    return [GroupedCohort(cohort, _groups(by_level)) for cohort, by_level in members.items()]


def _groups(by_level: Mapping[str, Sequence[float]]) -> tuple[FactorGroup, ...]:
    found = {level: distribution(values) for level, values in by_level.items()}
    order = sorted(found, key=lambda level: (-found[level].n, level))
    reference = found[order[0]]
    spread = max(_LEAST_SPREAD, _pooled_spread(list(found.values())))
    return tuple(
        FactorGroup(level, found[level], None if place == 0 else _difference(found[level], reference, spread))
        for place, level in enumerate(order)
    )


def _difference(own: Distribution, reference: Distribution, spread: float) -> Difference | None:
    if min(own.n, reference.n) < FEWEST_PEERS:
        return None
    effect = own.median / reference.median - 1
    margin = _Z_95 * _MEDIAN_ERROR * spread * math.sqrt(1 / own.n + 1 / reference.n)
    return Difference(effect, effect - margin, effect + margin)


def _pooled_spread(groups: Sequence[Distribution]) -> float:
    """Relative standard deviation within groups, from their quartiles, weighted by their gpus."""
    large = [group for group in groups if group.n >= FEWEST_PEERS]
    total = sum(group.n for group in large)
    if not total:
        return 0.0
    return sum(group.n * (group.q3 - group.q1) / (_QUARTILES_APART * group.median) for group in large) / total
