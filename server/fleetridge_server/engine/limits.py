"""
One gpu beside its peers: every number of a verdict, so that it can be recomputed by hand.

    loss  = 1 - value / median
    scale = max(1.4826·b_n·MAD, f·median)
    z     = (value - median) / scale
    limit = the smaller of max(gate, 3.5·scale/median) and 10 %; without the 10 % in a wide cohort
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.groups import Group, Level, Step, grouped, level_centers, pooled_deviation
from fleetridge_server.engine.statistics import (
    Scale,
    floored_scale,
    median,
    robust_deviation,
    scale_floor,
    small_sample_factor,
    two_sided,
)
from fleetridge_server.engine.values import Member, values_of


@dataclass(frozen=True, slots=True)
class Limits:
    """
    What the gpus of one group are held against.

    Attributes:
        n: gpus behind the median, the judged one included.
        median: of their values, in the unit of the roof.
        scale: of the group, or pooled over the levels of the cohort where it has steps.
        pooled_n: gpus behind the scale.
        floor: smallest scale f, as a fraction of the median.
        gate: smallest loss that counts, as a fraction.
        limit: loss past which a gpu is beyond.
        wide: whether the scale alone decides, as the cohort scatters too widely.
        levels: of the factors by which the cohort was split.
        of_faster_half: whether the median is that of the faster half, as the slower half is set apart (`halves`).
        is_recent: whether anybody of the group was measured in the window; if not, old values judge nobody.
    """

    n: int
    median: float
    scale: Scale
    pooled_n: int
    floor: float
    gate: float
    limit: float
    wide: bool
    levels: tuple[Level, ...] = ()
    of_faster_half: bool = False
    is_recent: bool = True

    @property
    def has_verdict(self) -> bool:
        """Whether there are peers enough, measured recently enough, to say anything."""
        return self.is_recent and self.n >= rule.FEWEST_PEERS

    @property
    def lowest(self) -> float:
        """Smallest value that lies inside the limit, in the unit of the roof."""
        return self.median * (1 - self.limit)

    def loss(self, value: float) -> float:
        """Part of the median that a value lacks; negative for a faster one."""
        return 1 - value / self.median

    def is_beyond(self, value: float) -> bool:
        """Whether a value lies beyond the limit; one that loses exactly so much, such as 97 of 100 at 3 %, does not."""
        return value < self.lowest

    def z(self, value: float) -> float:
        """Distance from the median in scales, negative for slower."""
        return (value - self.median) / self.scale.value

    def p(self, value: float) -> float:
        """Two-sided probability of such a distance among healthy gpus."""
        return two_sided(self.z(value), self.scale.degrees)


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """A group with its limits."""

    group: Group
    limits: Limits

    @property
    def lowest_two(self) -> tuple[float, float]:
        """The two smallest values behind the median; 0 for one that is not there."""
        lowest, second, *_ = (*heapq.nsmallest(2, (member.value for member in self.group.counted)), 0.0, 0.0)
        return lowest, second

    @property
    def fastest_of_few(self) -> float | None:
        """Largest value of two or three peers that were measured lately; None of fewer, and of enough to judge."""
        values = [member.value for member in self.group.counted]
        is_few = rule.FEWEST_TO_DIFFER <= len(values) < rule.FEWEST_PEERS
        return max(values) if is_few and self.limits.is_recent else None


@dataclass(frozen=True, slots=True)
class JudgedCohort:
    """A cohort with its groups, and the steps between them."""

    cohort: Cohort
    groups: tuple[JudgedGroup, ...]
    steps: tuple[Step, ...]

    @property
    def n(self) -> int:
        """Gpus that count."""
        return sum(len(judged.group.counted) for judged in self.groups)


def judged_cohort(cohort: Cohort, members: Sequence[Member]) -> JudgedCohort:
    """What the gpus of a cohort are held against; `members` are all of it, those not measured lately included."""
    floor = scale_floor(values_of(member.runs[: member.value_runs]) for member in members if member.in_window)
    if not any(member.in_window for member in members):
        return JudgedCohort(cohort, (_of_the_past(members, floor),), ())
    groups, steps = grouped(members, floor)
    values = [[member.value for member in group.counted] for group in groups]
    all_limits = _limits_of_groups(values, level_centers(values, floor) if len(groups) > 1 else None, floor)
    judged = (
        JudgedGroup(group, replace(limits, levels=group.levels))
        for group, limits in zip(groups, all_limits, strict=True)
    )
    return JudgedCohort(cohort, tuple(judged), tuple(steps))


def _of_the_past(members: Sequence[Member], floor: float) -> JudgedGroup:
    """The group of a cohort in which nobody was measured in the window: its old values are shown beside one another."""
    limits = replace(limits_of([member.value for member in members], floor), is_recent=False)
    return JudgedGroup(Group((), (), tuple(members)), limits)


def limits_from(center: float, scale: Scale, *, n: int, pooled_n: int, floor: float) -> Limits:
    """Limits from a median, a scale and a floor, by the formulas of this module's docstring."""
    gate = max(rule.SMALLEST_GATE, rule.FLOORS_PER_GATE * floor)
    relative = scale.value / center
    wide = pooled_n >= rule.WIDE_FEWEST and relative > rule.WIDE_SCALE
    limit = max(gate, rule.BEYOND_SCALES * relative)
    return Limits(
        n=n,
        median=center,
        scale=scale,
        pooled_n=pooled_n,
        floor=floor,
        gate=gate,
        limit=limit if wide else min(limit, rule.PLAIN_LOSS),
        wide=wide,
    )


def limits_of(values: Sequence[float], floor: float) -> Limits:
    """Limits of plain values, above 0, that make one group."""
    n = len(values)
    center = median(values)
    deviation = small_sample_factor(n) * robust_deviation([value - center for value in values])
    return limits_from(center, floored_scale(deviation, center, n=n, floor=floor), n=n, pooled_n=n, floor=floor)


def _limits_of_groups(values: Sequence[Sequence[float]], centers: Sequence[float] | None, floor: float) -> list[Limits]:
    """Limits of a cohort's groups: with centers, those of levels, each its own and all one relative scale."""
    if centers is None:
        return [limits_of(own, floor) for own in values]
    total = sum(map(len, values))
    deviation = pooled_deviation(values, centers)
    # Every level spends one gpu on its median, where a cohort in one piece spends one in all.
    spread_n = max(1, total - (len(values) - 1))
    all_limits: list[Limits] = []
    for own, center in zip(values, centers, strict=True):
        scale = floored_scale(deviation * center, center, n=spread_n, floor=floor)
        limits = limits_from(center, scale, n=len(own), pooled_n=total, floor=floor)
        all_limits.append(replace(limits, of_faster_half=center != median(own)))
    return all_limits
