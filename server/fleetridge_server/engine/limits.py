"""
One gpu beside its peers: every number of a verdict, so that it can be recomputed by hand.

    loss  = 1 - value / median
    scale = max(1.4826·b_n·MAD, f·median)
    z     = (value - median) / scale
    limit = the smaller of max(gate, 3.5·scale/median) and 10 %; without the 10 % in a wide cohort
"""

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
    """
    A group with its limits.

    Attributes:
        earlier: its limits when its gpus had one run fewer, two fewer and so on; as far back as they are needed.
    """

    group: Group
    limits: Limits
    earlier: tuple[Limits, ...] = ()


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
    floor = scale_floor(values_of(member.runs[: rule.NEWEST_REPORTS]) for member in members if member.in_window)
    if not any(member.in_window for member in members):
        return JudgedCohort(cohort, (_of_the_past(members, floor),), ())
    groups, steps = grouped(members, floor)
    values = [[member.value for member in group.counted] for group in groups]
    all_limits = _limits_of_groups(values, level_centers(values, floor) if len(groups) > 1 else None, floor)
    earlier = _earlier(groups, [limits.of_faster_half for limits in all_limits])
    judged = (
        JudgedGroup(group, replace(limits, levels=group.levels), tuple(then[place] for then in earlier))
        for place, (group, limits) in enumerate(zip(groups, all_limits, strict=True))
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


def _earlier(groups: Sequence[Group], of_faster_half: Sequence[bool]) -> list[list[Limits]]:
    """
    Limits of the same groups without the newest run of each gpu, without its newest two, and so on.

    Median and limit of a few gpus wander by themselves. Held against today's alone, a gpu near the limit would be
    accused and let go for what its peers did; held against those of its time, each of its runs keeps what it said.
    """
    found: list[list[Limits]] = []
    if sum(len(group.counted) for group in groups) > rule.STEADY_MEDIAN_FROM:
        return found
    for left_out in range(1, rule.REMEMBERED_REPORTS - rule.NEWEST_REPORTS + 1):
        runs = [[values_of(own.runs[left_out:])[: rule.NEWEST_REPORTS] for own in group.counted] for group in groups]
        known = [[own for own in group if own] for group in runs]
        if not all(_tells(len(own), len(group.counted)) for own, group in zip(known, groups, strict=True)):
            break
        floor = scale_floor(own for group in known for own in group)
        values = [[median(own) for own in group] for group in known]
        halves = [_faster_half(own) if half else own for own, half in zip(values, of_faster_half, strict=True)]
        found.append(_limits_of_groups(values, [*map(median, halves)] if len(groups) > 1 else None, floor))
    return found


def _tells(known: int, now: int) -> bool:
    """Whether gpus enough of a group were measured so often that it can be looked back on."""
    return known >= rule.FEWEST_PEERS and 2 * known >= now


def _faster_half(values: Sequence[float]) -> list[float]:
    return sorted(values)[len(values) // 2 :]
