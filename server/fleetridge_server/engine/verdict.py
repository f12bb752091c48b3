"""
Verdicts on every gpu × judged roof of one device: probabilities, false-discovery rate, accusation.

- `q_values` is the procedure of Benjamini and Hochberg (1995). Among a thousand healthy gpus one has p = 0.1 % by
  chance; q is the share of false ones to expect among all pairs that are accused with the same q or a smaller one. The
  gpus of all cohorts of a device are one family of comparisons.
- `accusation` holds each run of a gpu's streak against the limits of this evaluation. So the level of accusation
  depends on the reports in their order and on nothing else: not on when they arrived, nor on what was said before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from fleetridge.report import RoofKey
from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.groups import Proven
from fleetridge_server.engine.limits import JudgedCohort, Limits, cohort_members, judged_cohort
from fleetridge_server.engine.values import Member, Run, is_link, middle_of_few, values_of


def q_values(probabilities: Sequence[float]) -> list[float]:
    """
    Adjusted probabilities, in the order of the given ones.

    q of the k-th smallest of N is the smallest p(j)·N/j over j ≥ k.
    """
    count = len(probabilities)
    adjusted = [1.0] * count
    smallest = 1.0
    rank = count
    for position in sorted(range(count), key=probabilities.__getitem__, reverse=True):
        smallest = min(smallest, probabilities[position] * count / rank)
        adjusted[position] = smallest
        rank -= 1
    return adjusted


def largest_significant(probabilities: Sequence[float]) -> float:
    """
    Largest p that is believed among these: one has q at most FALSE_DISCOVERIES exactly where it does not exceed this.

    At least FALSE_DISCOVERIES/N, which is small enough for any one of N whatever the others are; 0 of none.
    """
    count, rate = len(probabilities), rule.FALSE_DISCOVERIES
    believed = rate / count if count else 0.0
    for rank, probability in enumerate(sorted(probabilities), start=1):
        if probability <= rate * rank / count:
            believed = max(believed, probability)
    return believed


PlaceWord = Literal["node", "rack"]
GroupWord = Literal["node", "rack", "setting"]


class AccusationLevel(IntEnum):
    """What a gpu is accused of, mildest first."""

    CLEAR = 0
    SUSPECT = 1
    OUTLIER = 2


@fast_dataclass
class Accusation:
    """
    Level of accusation of one gpu in one cohort.

    Attributes:
        retest: the newest run alone lies beyond the limit.
        intermittent: it comes and goes: beyond the limit, clearly inside and beyond again among the newest ten runs,
            and since then fewer good runs than bad ones. A note, no accusation.
        with_group: it is accused because its whole node or rack is, or all who share a setting; not for its own runs.
    """

    level: AccusationLevel
    retest: bool = False
    intermittent: bool = False
    with_group: GroupWord | None = None


_NOTHING = Accusation(AccusationLevel.CLEAR)


def accusation(runs: Sequence[Run], limits: Limits, believed_p: float, peers_lowest: float) -> Accusation:
    """
    Level of accusation from a gpu's runs, all held against the limits of this evaluation.

    Its streak are the runs since the newest two in a row that lay clearly inside. Two runs of the streak beyond the
    limit, an hour or more apart, confirm each other where chance does not explain the median of three runs; so do two
    that lost a tenth and lie below all peers. A run that lost a quarter needs none where it says that it converged and
    the node's other gpus did not fall with it.

    Args:
        runs: newest first, at most ten count.
        limits: of its group; one without a verdict accuses nobody.
        believed_p: largest p whose q is small enough to believe.
        peers_lowest: smallest value among the peers; 0 where there are none.
    """
    if not limits.has_verdict:
        return _NOTHING
    values = values_of(runs)
    # Most gpus end here: no run beyond, so no median of runs either.
    if not limits.is_beyond(min(values)):
        return _NOTHING
    streak = _streak([_is_clearly_inside(value, limits) for value in values])
    level = AccusationLevel.CLEAR
    # Where older runs are forgotten, the oldest known one was not alone.
    fewest = rule.NEWEST_REPORTS if len(runs) == rule.REMEMBERED_REPORTS else 1
    for newest in range(min(streak, len(runs) - fewest + 1)):
        beyond = [run for run in runs[newest:streak] if limits.is_beyond(run.value)]
        recent = runs[newest : newest + rule.NEWEST_REPORTS]
        level = max(level, _accused(recent, beyond, limits, believed_p, peers_lowest))
    return Accusation(
        level,
        retest=limits.is_beyond(values[0]) and level is AccusationLevel.CLEAR,
        intermittent=_comes_and_goes(values, limits),
    )


def _streak(clear: Sequence[bool]) -> int:
    """How many runs are newer than the newest two in a row that are clear; runs are given newest first."""
    return next((place for place in range(len(clear) - 1) if clear[place] and clear[place + 1]), len(clear))


def _accused(
    recent: Sequence[Run], beyond: Sequence[Run], limits: Limits, believed_p: float, peers_lowest: float
) -> AccusationLevel:
    """What a gpu was accused of at the newest of the recent runs, by the runs of its streak beyond the limit so far."""
    worst = AccusationLevel.OUTLIER if limits.n >= rule.FEWEST_FOR_OUTLIER else AccusationLevel.SUSPECT
    collapses = [run for run in beyond if limits.loss(run.value) >= rule.LOSS_AT_ONCE]
    if recent[0] in collapses and (_is_certain_alone(recent[0]) or _are_apart(collapses)):
        return worst
    value = middle_of_few([run.value for run in recent])
    is_alone = len(recent) > 1 and beyond == [recent[0]]
    if not beyond or is_alone or not limits.is_beyond(value):
        return AccusationLevel.CLEAR
    far = [run for run in beyond if limits.loss(run.value) >= rule.PLAIN_LOSS and run.value < peers_lowest]
    is_confirmed = _are_apart(far) or (_are_apart(beyond) and limits.p(value) <= believed_p)
    return worst if is_confirmed else AccusationLevel.SUSPECT


def _is_certain_alone(run: Run) -> bool:
    """Whether no disturbance explains a collapse: it is said to have converged, and its node was not what fell."""
    return run.reading.converged is True and run.report.node is not None and not run.fell_with_node


def _are_apart(runs: Sequence[Run]) -> bool:
    """Whether there are two runs, newest first, that no one disturbance explains."""
    return len(runs) >= rule.CONFIRMATIONS and (
        runs[0].report.ordered_at - runs[-1].report.ordered_at >= rule.CONFIRMATIONS_APART
    )


def _is_clearly_inside(value: float, limits: Limits) -> bool:
    return limits.loss(value) < rule.CLEAR_PART * limits.limit


def _comes_and_goes(values: Sequence[float], limits: Limits) -> bool:
    """Whether a gpu was beyond the limit, well again, and beyond once more, and not well for as long as it was not."""
    beyond = [limits.is_beyond(value) for value in values]
    episodes = 0
    is_down = False
    for value, is_beyond in zip(values, beyond, strict=True):
        if is_beyond:
            episodes += not is_down
            is_down = True
        elif _is_clearly_inside(value, limits):
            is_down = False
    return episodes >= rule.CONFIRMATIONS and beyond.index(True) < sum(beyond)


@fast_dataclass
class Verdict:
    """
    One gpu beside its peers in one roof, with every number that it rests on.

    Attributes:
        member: the gpu's value and the runs behind it.
        limits: n, median, scale, floor, gate and limit of its group.
        loss: part of the median that it lacks.
        z, p, q: None where there are too few peers; q None too for a value that is not recent.
        finding: what it is accused of.
        counted: whether the value is one of those behind the median.
        behind: part that it lacks of the fastest of two or three peers, itself included; 0 of more, or of old ones.
    """

    member: Member
    limits: Limits
    loss: float
    z: float | None
    p: float | None
    q: float | None
    finding: Accusation
    counted: bool = True
    behind: float = 0.0

    @property
    def gpu_id(self) -> str:
        """The judged gpu."""
        return self.member.gpu_id

    @property
    def cohort(self) -> Cohort:
        """Its cohort."""
        return self.member.cohort

    @property
    def is_accused(self) -> bool:
        """Whether it is suspect or worse."""
        return self.finding.level is not AccusationLevel.CLEAR

    @property
    def is_far_behind(self) -> bool:
        """Whether it lacks so much of the fastest of its few peers that somebody should look at them."""
        return self.behind >= rule.PLAIN_LOSS


@dataclass(frozen=True, slots=True)
class JudgedDevice:
    """All verdicts of one device, and the cohorts in which somebody was measured lately; links stand apart."""

    verdicts: tuple[Verdict, ...]
    cohorts: tuple[JudgedCohort, ...]


@fast_dataclass
class _Pair:
    member: Member
    limits: Limits
    p: float | None
    counted: bool
    peers_lowest: float
    fastest_of_few: float | None


def device_verdicts(
    cohorts: Mapping[Cohort, Sequence[Member]], proven: Mapping[RoofKey, Proven] | None = None
) -> JudgedDevice:
    """
    Verdicts from the members of all cohorts of one device.

    Args:
        cohorts: every member of each.
        proven: by roof the steps that gpus met in place.
    """
    sorted_cohorts = [cohort_members(cohort, members) for cohort, members in cohorts.items()]
    believed = largest_significant([p for own in sorted_cohorts for p in own.step_probabilities])
    judged = [judged_cohort(own, believed, (proven or {}).get(own.cohort.roof, frozenset())) for own in sorted_cohorts]
    roofs = [cohort for cohort in judged if not is_link(cohort.cohort.roof)]
    links = [cohort for cohort in judged if is_link(cohort.cohort.roof)]
    return JudgedDevice((*_family(roofs), *_family(links)), tuple(cohort for cohort in judged if cohort.n))


def _family(cohorts: Iterable[JudgedCohort]) -> list[Verdict]:
    pairs = list(_pairs(cohorts))
    tested = [pair.p for pair in pairs if pair.p is not None and pair.member.in_window]
    believed = largest_significant(tested)
    adjusted = iter(q_values(tested))
    return [
        _verdict(pair, believed, next(adjusted) if pair.p is not None and pair.member.in_window else None)
        for pair in pairs
    ]


def _pairs(cohorts: Iterable[JudgedCohort]) -> Iterable[_Pair]:
    for cohort in cohorts:
        for judged in cohort.groups:
            limits = judged.limits
            lowest = judged.lowest_two
            fastest = judged.fastest_of_few
            for members, counted in ((judged.group.counted, True), (judged.group.uncounted, False)):
                for member in members:
                    p = limits.p(member.value) if limits.has_verdict else None
                    is_lowest = counted and member.value == lowest[0]
                    yield _Pair(member, limits, p, counted, lowest[is_lowest], fastest if counted else None)


def _of_unstable(member: Member, limits: Limits) -> Accusation:
    """What reports that call themselves unstable accuse a gpu of: nothing; one beyond the limit asks for a retest."""
    is_beyond = limits.has_verdict and limits.is_beyond(member.value)
    return Accusation(AccusationLevel.CLEAR, retest=is_beyond)


def _verdict(pair: _Pair, believed_p: float, q: float | None) -> Verdict:
    member, limits = pair.member, pair.limits
    if member.is_stable:
        finding = accusation(member.runs, limits, believed_p, pair.peers_lowest)
    else:
        finding = _of_unstable(member, limits)
    return Verdict(
        member=member,
        limits=limits,
        loss=limits.loss(member.value),
        z=limits.z(member.value) if limits.has_verdict else None,
        p=pair.p,
        q=q,
        finding=finding,
        counted=pair.counted,
        behind=_behind(member.value, pair.fastest_of_few),
    )


def _behind(value: float, fastest: float | None) -> float:
    """Part of the fastest of few that a value lacks; 90 of 100 lacks a tenth exactly."""
    return 0.0 if fastest is None else (fastest - value) / fastest
