"""
What an upgrade did: every gpu paired with itself, before and after.

The Hodges–Lehmann estimate on log ratios with the interval of Wilcoxon's signed-rank test (Hollander, Wolfe and
Chicken, Nonparametric Statistical Methods, 3.2 and 3.3): the median of all means of two ratios, a ratio with itself
included. A gpu that broke on the same day moves it little.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleetridge_server.compare.cohort import FEWEST_PEERS, NEWEST_REPORTS
from fleetridge_server.compare.stats import median
from fleetridge_server.verdict.drift import Look
from fleetridge_server.verdict.evidence import Factors
from fleetridge_server.verdict.levels import Level, level_name

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
    """
    Effect from values before and after, above 0, of at least one gpu.

    Raises:
        ValueError: no pairs.
    """
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


def epoch_effects(histories: Mapping[str, Sequence[Look]]) -> dict[EpochChange, PairedEffect]:
    """
    Effects of the newest change of each factor that at least four gpus met, in one roof.

    Args:
        histories: looks of each gpu, oldest first.
    """
    pairs: dict[EpochChange, list[tuple[float, float]]] = defaultdict(list)
    for looks in histories.values():
        for change, pair in _changes(looks):
            pairs[change].append(pair)
    return {change: paired_effect(found) for change, found in sorted(pairs.items()) if len(found) >= FEWEST_PEERS}


def _changes(looks: Sequence[Look]) -> Iterable[tuple[EpochChange, tuple[float, float]]]:
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
