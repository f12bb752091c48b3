"""
Verdicts on every gpu × judged roof of one device: probabilities, false-discovery rate, accusation.

- `q_values` is the procedure of Benjamini and Hochberg (1995). Among a thousand healthy gpus one has p = 0.1 % by
  chance; q is the share of false ones to expect among all pairs that are accused with the same q or a smaller one. The
  gpus of all cohorts of a device are one family of comparisons.
- `accusation` goes through the newest runs of a gpu from the oldest on, each held against the limits that its group had
  then. So the level of accusation depends on the reports in their order and on nothing else: not on when they arrived,
  nor on what was said before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.limits import JudgedCohort, Limits, judged_cohort
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
        intermittent: it comes and goes: at least two of the newest ten runs lie beyond the limit, and at least one that
            is newer than the oldest of them lies clearly inside, as one that clears a gpu does.
    """

    level: AccusationLevel
    retest: bool = False
    intermittent: bool = False


_NOTHING = Accusation(AccusationLevel.CLEAR)


def accusation(runs: Sequence[Run], limits: Limits, believed_p: float, earlier: Sequence[Limits] = ()) -> Accusation:
    """
    Level of accusation from a gpu's runs.

    Args:
        runs: newest first, at most ten count.
        limits: of its group; one without a verdict accuses nobody.
        believed_p: largest p whose q is small enough to believe.
        earlier: limits of its group without each gpu's newest run, without its newest two, and so on; the last
            stands for all before it.
    """
    if not limits.has_verdict:
        return _NOTHING
    values = values_of(runs)
    # Most gpus end here: no run beyond, so no median of runs either.
    if not limits.is_beyond(min(values)):
        return _NOTHING
    beyond = [limits.is_beyond(value) for value in values]
    level = _replayed(runs, (limits, *earlier), believed_p)
    intermittent = sum(beyond) >= rule.CONFIRMATIONS and _is_broken(values, beyond, limits)
    if level is AccusationLevel.CLEAR and _comes_and_goes(values, beyond, limits):
        level = AccusationLevel.SUSPECT
    return Accusation(level, retest=beyond[0] and level is AccusationLevel.CLEAR, intermittent=intermittent)


def _replayed(runs: Sequence[Run], all_limits: Sequence[Limits], believed_p: float) -> AccusationLevel:
    level = AccusationLevel.CLEAR
    # Where older runs are forgotten, the oldest known one was not alone.
    fewest = rule.NEWEST_REPORTS if len(runs) == rule.REMEMBERED_REPORTS else 1
    for oldest_left in range(len(runs) - fewest, -1, -1):
        recent = runs[oldest_left : oldest_left + rule.NEWEST_REPORTS]
        limits = all_limits[min(oldest_left, len(all_limits) - 1)]
        if _is_cleared(recent, limits):
            level = AccusationLevel.CLEAR
        else:
            level = max(level, _accused(recent, limits, believed_p))
    return level


def _accused(recent: Sequence[Run], limits: Limits, believed_p: float) -> AccusationLevel:
    """What the newest (at most three) runs accuse a gpu of by themselves."""
    newest = recent[0]
    may_be_outlier = limits.n >= rule.FEWEST_FOR_OUTLIER
    if limits.loss(newest.value) >= rule.LOSS_AT_ONCE and newest.reading.converged and limits.is_beyond(newest.value):
        return AccusationLevel.OUTLIER if may_be_outlier else AccusationLevel.SUSPECT
    beyond = [run for run in recent if limits.is_beyond(run.value)]
    value = middle_of_few([run.value for run in recent])
    if not beyond or not limits.is_beyond(value):
        return AccusationLevel.CLEAR
    if beyond == [recent[0]] and len(recent) > 1:
        return AccusationLevel.CLEAR
    apart = beyond[0].report.ordered_at - beyond[-1].report.ordered_at
    confirmed = (
        len(beyond) >= rule.CONFIRMATIONS and apart >= rule.CONFIRMATIONS_APART and limits.p(value) <= believed_p
    )
    return AccusationLevel.OUTLIER if confirmed and may_be_outlier else AccusationLevel.SUSPECT


def _is_cleared(recent: Sequence[Run], limits: Limits) -> bool:
    newest = recent[: rule.CLEAR_RUNS]
    return len(newest) == rule.CLEAR_RUNS and all(_is_clearly_inside(run.value, limits) for run in newest)


def _is_clearly_inside(value: float, limits: Limits) -> bool:
    return limits.loss(value) < rule.CLEAR_PART * limits.limit


def _is_broken(values: Sequence[float], beyond: Sequence[bool], limits: Limits) -> bool:
    """Whether a run clearly inside the limit is newer than the oldest beyond it; runs are given newest first."""
    oldest = max(place for place, is_beyond in enumerate(beyond) if is_beyond)
    return any(_is_clearly_inside(value, limits) for value in values[:oldest])


def _comes_and_goes(values: Sequence[float], beyond: Sequence[bool], limits: Limits) -> bool:
    """
    Whether a gpu was far beyond the limit, well again, and far beyond once more.

    Only losses of a quarter count here: a gpu that is repaired once is not accused for its past, and one that is
    disturbed a little now and then is not accused at all.
    """
    episodes = 0
    is_down = False
    for value, is_beyond in zip(values, beyond, strict=True):
        if is_beyond and limits.loss(value) >= rule.LOSS_AT_ONCE:
            episodes += not is_down
            is_down = True
        elif _is_clearly_inside(value, limits):
            is_down = False
    return episodes >= rule.CONFIRMATIONS


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
    """

    member: Member
    limits: Limits
    loss: float
    z: float | None
    p: float | None
    q: float | None
    finding: Accusation
    counted: bool = True

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
    earlier: tuple[Limits, ...]


def device_verdicts(cohorts: Mapping[Cohort, Sequence[Member]]) -> JudgedDevice:
    """Verdicts from the members of all cohorts of one device."""
    judged = [judged_cohort(cohort, members) for cohort, members in cohorts.items()]
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
            for members, counted in ((judged.group.counted, True), (judged.group.uncounted, False)):
                for member in members:
                    yield _Pair(
                        member, limits, limits.p(member.value) if limits.has_verdict else None, counted, judged.earlier
                    )


def _verdict(pair: _Pair, believed_p: float, q: float | None) -> Verdict:
    member, limits = pair.member, pair.limits
    return Verdict(
        member=member,
        limits=limits,
        loss=limits.loss(member.value),
        z=limits.z(member.value) if limits.has_verdict else None,
        p=pair.p,
        q=q,
        finding=accusation(member.runs, limits, believed_p, pair.earlier),
        counted=pair.counted,
    )
