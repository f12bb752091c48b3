"""
Verdicts on every gpu × judged roof of one device.

The gpus of all cohorts of a device are one family of comparisons: q counts over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetridge_server.compare.cohort import Cohort
from fleetridge_server.record import record
from fleetridge_server.verdict.accusation import Finding, Standing, finding
from fleetridge_server.verdict.discovery import largest_believed, q_values
from fleetridge_server.verdict.judgement import JudgedCohort, Yardstick, judged_cohort
from fleetridge_server.verdict.members import Member, is_link


@record
class Verdict:
    """
    One gpu beside its peers in one roof, with every number that it rests on.

    Attributes:
        member: the gpu's value and the runs behind it.
        yardstick: n, median, scale, floor, gate and limit of its group.
        loss: part of the median that it lacks.
        z, p, q: None where there are too few peers; q None too for a value that is not recent.
        finding: what it is accused of.
        counted: whether the value is one of those behind the median.
    """

    member: Member
    yardstick: Yardstick
    loss: float
    z: float | None
    p: float | None
    q: float | None
    finding: Finding
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
        return self.finding.standing is not Standing.CLEAR


@dataclass(frozen=True, slots=True)
class DeviceVerdicts:
    """All verdicts of one device, and the cohorts in which somebody was measured lately; links stand apart."""

    verdicts: tuple[Verdict, ...]
    cohorts: tuple[JudgedCohort, ...]


@record
class _Pair:
    member: Member
    yardstick: Yardstick
    p: float | None
    counted: bool
    earlier: tuple[Yardstick, ...]


def device_verdicts(cohorts: Mapping[Cohort, Sequence[Member]]) -> DeviceVerdicts:
    """Verdicts from the members of all cohorts of one device."""
    judged = [judged_cohort(cohort, members) for cohort, members in cohorts.items()]
    roofs = [cohort for cohort in judged if not is_link(cohort.cohort.roof)]
    links = [cohort for cohort in judged if is_link(cohort.cohort.roof)]
    return DeviceVerdicts((*_family(roofs), *_family(links)), tuple(cohort for cohort in judged if cohort.n))


def _family(cohorts: Iterable[JudgedCohort]) -> list[Verdict]:
    pairs = list(_pairs(cohorts))
    tested = [pair.p for pair in pairs if pair.p is not None and pair.member.in_window]
    believed = largest_believed(tested)
    adjusted = iter(q_values(tested))
    return [
        _verdict(pair, believed, next(adjusted) if pair.p is not None and pair.member.in_window else None)
        for pair in pairs
    ]


def _pairs(cohorts: Iterable[JudgedCohort]) -> Iterable[_Pair]:
    for cohort in cohorts:
        for judged in cohort.groups:
            stick = judged.yardstick
            for members, counted in ((judged.group.counted, True), (judged.group.guests, False)):
                for member in members:
                    yield _Pair(
                        member, stick, stick.p(member.value) if stick.has_verdict else None, counted, judged.earlier
                    )


def _verdict(pair: _Pair, believed_p: float, q: float | None) -> Verdict:
    member, stick = pair.member, pair.yardstick
    return Verdict(
        member=member,
        yardstick=stick,
        loss=stick.loss(member.value),
        z=stick.z(member.value) if stick.has_verdict else None,
        p=pair.p,
        q=q,
        finding=finding(member.runs, stick, believed_p, pair.earlier),
        counted=pair.counted,
    )
