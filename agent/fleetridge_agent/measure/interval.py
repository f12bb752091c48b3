"""
Intervals for the median of blocks, by order statistics: they hold whatever the distribution of the blocks.

Each block lies below the true median with probability 1/2, so the number that do is binomial, and the k-th smallest
and the k-th largest of n blocks enclose the median unless fewer than k blocks lie on one side of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge_agent.protocol import GROUP_GAP, HALF_WIDTH, MISS_PER_LOOK

# A group of fewer blocks is a stray, not a state of the device.
_FEWEST_IN_GROUP = 2

# Groups must lie this many times further apart than each of them scatters.
_GAP_OVER_SCATTER = 3.0


@dataclass(frozen=True, slots=True)
class Interval:
    """Ends of an interval around a median."""

    low: float
    high: float

    def is_narrow(self, middle: float) -> bool:
        """Whether its half-width is as small as the protocol asks."""
        return (self.high - self.low) / 2 <= HALF_WIDTH * middle


@dataclass(frozen=True, slots=True)
class Groups:
    """Two states in which a device was found: their medians and how many blocks belong to each."""

    low: float
    low_count: int
    high: float
    high_count: int


def median_rank(blocks: int) -> int | None:
    """
    Rank k, counted from 1 and from either end, at which an interval for the median ends; None with too few blocks.

    It is the largest for which the chance of missing, 2·P(Bin(n, 1/2) < k), is small enough.
    """
    missed, rank = 0.0, 0
    while rank < blocks // 2:
        missed += 2 * math.comb(blocks, rank) / 2**blocks
        if missed > MISS_PER_LOOK:
            break
        rank += 1
    return rank or None


def median_interval(values: Sequence[float]) -> Interval | None:
    """Interval for the median that the values scatter around; None where they are too few for one."""
    rank = median_rank(len(values))
    if rank is None:
        return None
    ordered = sorted(values)
    return Interval(ordered[rank - 1], ordered[-rank])


def two_groups(values: Sequence[float]) -> Groups | None:
    """Two groups into which the values fall, None where they are one."""
    ordered = sorted(values)
    cuts = range(_FEWEST_IN_GROUP, len(ordered) - _FEWEST_IN_GROUP + 1)
    if not cuts:
        return None
    cut = max(cuts, key=lambda cut: ordered[cut] - ordered[cut - 1])
    low, high = ordered[:cut], ordered[cut:]
    gap, scatter = high[0] - low[-1], max(low[-1] - low[0], high[-1] - high[0])
    if gap <= GROUP_GAP * ordered[0] or gap <= _GAP_OVER_SCATTER * scatter:
        return None
    return Groups(statistics.median(low), len(low), statistics.median(high), len(high))
