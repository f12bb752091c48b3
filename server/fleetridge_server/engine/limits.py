"""
One gpu beside its peers: every number of a verdict, so that it can be recomputed by hand.

    loss  = 1 - value / median
    scale = max(1.4826·b_n·MAD, f·median)
    z     = (value - median) / scale
    limit = the smaller of max(gate, 3.5·scale/median) and 10 %; without the 10 % in a wide cohort
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.groups import (
    Group,
    Level,
    Proven,
    Step,
    StepRule,
    effect_gate,
    grouped,
    level_centers,
    pooled_deviation,
    step_probabilities,
)
from fleetridge_server.engine.settings import slower_settings
from fleetridge_server.engine.statistics import (
    Scale,
    floored_scale,
    median,
    robust_deviation,
    scale_floor,
    small_sample_factor,
    two_sided,
    weighted_deviation,
    weighted_median,
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
        of_faster_half: whether the median is that of the faster half, as the slower one lies apart (`level_centers`).
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
    settings: Mapping[Level, Sequence[Member]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Gpus that count."""
        return sum(len(judged.group.counted) for judged in self.groups)


@dataclass(frozen=True, slots=True)
class CohortMembers:
    """
    A cohort sorted by who has a vote.

    Attributes:
        counted: whose values make medians.
        uncounted: not measured lately, or with a setting that makes them slower.
        settings: such settings, with the gpus that share each.
        floor: smallest scale, as a fraction of the median.
    """

    cohort: Cohort
    counted: Sequence[Member]
    uncounted: Sequence[Member]
    settings: Mapping[Level, Sequence[Member]]
    floor: float

    @property
    def step_probabilities(self) -> list[float]:
        """Of each factor with levels to compare, how probable so large a step is by chance."""
        return step_probabilities(self.counted, self.floor)


def cohort_members(cohort: Cohort, members: Sequence[Member]) -> CohortMembers:
    """Who has a vote; `members` are all of a cohort, those not measured lately included."""
    recent = [member for member in members if member.in_window]
    floor = scale_floor(values_of(member.runs[: member.value_runs]) for member in recent)
    settings = slower_settings(recent, effect_gate(floor))
    without_vote = {member.gpu_id for own in settings.values() for member in own}
    without_vote |= {member.gpu_id for member in recent if not member.is_stable}
    counted = [member for member in recent if member.gpu_id not in without_vote]
    if not counted:
        # Where all reports call themselves unstable, these are what there is to see.
        without_vote, counted = set(), recent
    uncounted = [member for member in members if not member.in_window or member.gpu_id in without_vote]
    return CohortMembers(cohort, counted, uncounted, settings, floor)


def judged_cohort(own: CohortMembers, believed_p: float, proven: Proven = frozenset()) -> JudgedCohort:
    """What the gpus of a cohort are held against, with the steps that are believed."""
    cohort, floor = own.cohort, own.floor
    if not own.counted:
        return JudgedCohort(cohort, (_of_the_past(own.uncounted, floor),), ())
    groups, steps = grouped(own.counted, own.uncounted, StepRule(floor, believed_p, proven))
    all_limits = _limits_of_groups(groups, floor)
    judged = (
        JudgedGroup(group, replace(limits, levels=group.levels))
        for group, limits in zip(groups, all_limits, strict=True)
    )
    return JudgedCohort(cohort, tuple(judged), tuple(steps), own.settings)


def bounded_weights(members: Sequence[Member]) -> list[float] | None:
    """
    Weights of a group's values by which no node has more than a quarter of a median, from four nodes on.

    None where each gpu has one vote: no node has more than that. Otherwise the gpus of a node with more than c of them
    share c votes, of which c is a quarter of all.
    """
    nodes = [member.newest.report.node for member in members]
    sizes, part = Counter(nodes), rule.NODE_LARGEST_WEIGHT
    if None in sizes or len(sizes) * part < 1 or max(sizes.values()) <= part * len(members):
        return None
    # Of nodes in order of size the largest k are bounded: c = part·(k·c + the others' gpus).
    ordered = sorted(sizes.values(), reverse=True)
    votes = float(min(ordered))
    for bounded in range(1, len(ordered) + 1):
        rest = sum(ordered[bounded:])
        if part * bounded >= 1:
            break
        votes = part * rest / (1 - part * bounded)
        if rest == 0 or votes >= ordered[bounded]:
            break
    return [min(1.0, votes / sizes[node]) for node in nodes]


def _of_the_past(members: Sequence[Member], floor: float) -> JudgedGroup:
    """The group of a cohort in which nobody was measured in the window: its old values are shown beside one another."""
    limits = replace(limits_of([member.value for member in members], floor), is_recent=False)
    return JudgedGroup(Group((), (), tuple(members)), limits)


def limits_from(center: float, scale: Scale, *, n: int, pooled_n: int, floor: float) -> Limits:
    """Limits from a median, a scale and a floor, by the formulas of this module's docstring."""
    gate = effect_gate(floor)
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


def limits_of(values: Sequence[float], floor: float, weights: Sequence[float] | None = None) -> Limits:
    """Limits of plain values, above 0, that make one group; without `weights` each has one vote."""
    n = len(values)
    center = median(values) if weights is None else weighted_median(values, weights)
    residuals = [value - center for value in values]
    deviation = robust_deviation(residuals) if weights is None else weighted_deviation(residuals, weights)
    scale = floored_scale(small_sample_factor(n) * deviation, center, n=n, floor=floor)
    return limits_from(center, scale, n=n, pooled_n=n, floor=floor)


def _limits_of_groups(groups: Sequence[Group], floor: float) -> list[Limits]:
    """Limits of a cohort's groups; those of levels each its own and all one relative scale."""
    values = [[member.value for member in group.counted] for group in groups]
    weights = [bounded_weights(group.counted) for group in groups]
    if len(groups) == 1:
        return [limits_of(values[0], floor, weights[0])]
    centers = [
        center if votes is None else weighted_median(own, votes)
        for own, center, votes in zip(values, level_centers(values, floor), weights, strict=True)
    ]
    total = sum(map(len, values))
    deviation = pooled_deviation(values, centers)
    # Every level spends one gpu on its median, where a cohort in one piece spends one in all.
    spread_n = max(1, total - (len(values) - 1))
    all_limits: list[Limits] = []
    for own, center, votes in zip(values, centers, weights, strict=True):
        scale = floored_scale(deviation * center, center, n=spread_n, floor=floor)
        limits = limits_from(center, scale, n=len(own), pooled_n=total, floor=floor)
        all_limits.append(replace(limits, of_faster_half=votes is None and center != median(own)))
    return all_limits
