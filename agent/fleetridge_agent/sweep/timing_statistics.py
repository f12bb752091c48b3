"""
Statistics of repeated calls, and how many of them fit into a time; no device, no clock.

Intervals for the median of blocks are by order statistics, so they hold whatever the distribution of the blocks. Each
block lies below the true median with probability 1/2, so the number that do is binomial, and the k-th smallest and the
k-th largest of n blocks enclose the median unless fewer than k blocks lie on one side of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge_agent.measurement_protocol import GROUP_GAP, HALF_WIDTH, MISS_PER_LOOK

# A group of fewer blocks is a stray, not a state of the device.
_FEWEST_IN_GROUP = 2

# Groups must lie this many times further apart than each of them scatters.
_GAP_OVER_SCATTER = 3.0

# Quartiles need two samples.
_FEWEST_FOR_SPREAD = 2


@dataclass(frozen=True, slots=True)
class Timing:
    """
    How long one call takes.

    Attributes:
        ms: median, so that one wild sample does not move it.
        spread: interquartile range over the median, as a fraction; None where a single sample has none.
        reps: samples behind it.
    """

    ms: float
    spread: float | None
    reps: int


@dataclass(frozen=True, slots=True)
class BlockTiming:
    """
    How long one call takes, measured in blocks.

    Attributes:
        whole: median of the blocks' medians; spread and number over all samples.
        first_ms, last_ms: medians of the first and last block, whose ratio shows a device that slows down.
        interval: for the median of the blocks, in ms; None where they were too few for one.
        groups: the two states in which the device was found, None where it was one; `whole` is then the median of the
            larger group, of the slower where they are equal, and never a mean of the two.
    """

    whole: Timing
    first_ms: float
    last_ms: float
    interval: Interval | None = None
    groups: Groups | None = None

    @property
    def has_converged(self) -> bool | None:
        """Whether the interval is as narrow as the protocol asks; None where there is none."""
        return None if self.interval is None else self.interval.is_narrow(self.whole.ms)


@dataclass(frozen=True, slots=True)
class Interval:
    """Ends of an interval around a median, or around the mean of unbroken load, in the unit of the values."""

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


def timing_of(samples_ms: Sequence[float]) -> Timing:
    """
    Timing of one row of samples.

    Raises:
        ValueError: there are none, or their median is not above zero, which no call's can be.
    """
    ms = statistics.median(samples_ms)
    if not ms > 0:
        raise ValueError(f"calls cannot take {ms} ms; the timer of this device is broken")
    return Timing(ms, _spread(samples_ms, ms), len(samples_ms))


def timing_of_blocks(blocks_ms: Sequence[Sequence[float]]) -> BlockTiming:
    """Timing of blocks of samples, in the order in which they were taken; raises as `timing_of` does."""
    medians_ms = [timing_of(block).ms for block in blocks_ms]
    groups = two_groups(medians_ms)
    ms = statistics.median(medians_ms) if groups is None else _larger(groups)
    samples_ms = [sample for block in blocks_ms for sample in block]
    return BlockTiming(
        whole=Timing(ms, _spread(samples_ms, ms), len(samples_ms)),
        first_ms=medians_ms[0],
        last_ms=medians_ms[-1],
        interval=median_interval(medians_ms),
        groups=groups,
    )


def _larger(groups: Groups) -> float:
    return groups.high if groups.high_count >= groups.low_count else groups.low


def _spread(samples_ms: Sequence[float], ms: float) -> float | None:
    if len(samples_ms) < _FEWEST_FOR_SPREAD:
        return None
    lower, _, upper = statistics.quantiles(samples_ms, n=4, method="inclusive")
    return (upper - lower) / ms


def calls_that_fit(call_ms: float, *, budget_ms: float, at_least: int, at_most: int) -> int:
    """Number of calls that a time has room for, within bounds that win over the time."""
    return max(at_least, min(at_most, int(budget_ms / call_ms)))


def queue_lengths(calls: int, *, call_ms: float, limit_ms: float) -> tuple[int, ...]:
    """
    Calls of each queue, so that no queue holds more work than the limit unless a single call does.

    The lengths differ by one at most: a short last queue would be measured under other conditions than the rest.
    """
    longest = max(1, int(limit_ms / call_ms))
    queues = -(-calls // longest)
    return tuple(calls // queues + (position < calls % queues) for position in range(queues))
