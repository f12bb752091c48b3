"""
What each gpu counts for in each cohort: the median of its newest reports.

A gpu counts under the conditions of its newest report, as in `compare.cohort`; what it did before it was split,
refilled or measured by an older protocol is history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import NEWEST_REPORTS, Cohort, is_judged
from fleetridge_server.verdict.carrying import PastRun, carrying_factors
from fleetridge_server.verdict.evidence import JudgedReport, RoofReading
from fleetridge_server.verdict.identities import with_conflicts

# Older values say how a gpu was, not how it is; a month holds several sweeps of even a rarely measured fleet.
WINDOW = timedelta(days=30)

# How far back an accusation remembers: a fault that comes and goes shows within ten runs, a repaired gpu is clean then.
REMEMBERED_REPORTS = 10

# Links are compared with their like, but a slow link is no slow gpu.
_LINKS = ("pcie", "nvlink")


class Run(NamedTuple):
    """
    One roof of one valid report.

    Attributes:
        carried: what an upgrade since then did to this rate (`carrying`); 1 where nothing is known to have changed.
    """

    report: JudgedReport
    reading: RoofReading
    carried: float = 1.0

    @property
    def value(self) -> float:
        """What the run counts for today: what was measured, times what upgrades did since."""
        return self.reading.value * self.carried


class Member(NamedTuple):
    """
    A gpu in one cohort.

    Attributes:
        runs: its newest valid runs under the cohort's conditions, newest first, at most REMEMBERED_REPORTS.
        value: median of the newest (at most three) of them.
        in_window: whether the value is recent enough to move the cohort's median.
    """

    gpu_id: str
    cohort: Cohort
    runs: tuple[Run, ...]
    value: float
    in_window: bool

    @property
    def newest(self) -> Run:
        """The newest run."""
        return self.runs[0]


def by_gpu(reports: Iterable[JudgedReport], as_of: datetime) -> dict[str, list[JudgedReport]]:
    """Reports of each gpu up to `as_of`, newest first and with their conflicts, gpus in the order of their ids."""
    found: dict[str, list[JudgedReport]] = defaultdict(list)
    for report in reports:
        if report.ordered_at <= as_of:
            found[report.gpu_id].append(report)
    return {
        gpu_id: with_conflicts(
            sorted(found[gpu_id], key=lambda report: (report.ordered_at, report.report_id), reverse=True)
        )
        for gpu_id in sorted(found)
    }


def members_by_cohort(histories: Mapping[str, Sequence[JudgedReport]], as_of: datetime) -> dict[Cohort, list[Member]]:
    """Members of every cohort, in the order of their ids."""
    window_from = as_of - WINDOW
    cohorts: dict[Cohort, list[Member]] = {}
    # Most gpus of a cohort share the very conditions: to find it by these takes a quarter of the time.
    found: dict[tuple[RoofKey, int], tuple[Cohort, list[Member]]] = {}
    for gpu_id, reports in histories.items():
        for roof, runs in _runs_by_roof(reports, window_from):
            newest = runs[0].report
            key = roof, id(newest.conditions)
            if key not in found:
                found[key] = _cohort_of(cohorts, Cohort(roof, newest.conditions))
            cohort, members = found[key]
            members.append(Member(gpu_id, cohort, tuple(runs), _value(runs), newest.ordered_at >= window_from))
    return {cohort: _carried(members) for cohort, members in cohorts.items()}


def _cohort_of(cohorts: dict[Cohort, list[Member]], wanted: Cohort) -> tuple[Cohort, list[Member]]:
    """The cohort that equals the wanted one, the same object for all its members, and these."""
    members = cohorts.setdefault(wanted, [])
    return next(cohort for cohort in cohorts if cohort == wanted), members


def _carried(members: list[Member]) -> list[Member]:
    """Members of a cohort, with runs before an upgrade worth what they would be after it."""
    # Most fleets are not being upgraded; these are the gpus for which there is anything to find out.
    changed = [place for place, member in enumerate(members) if _has_other_settings(member)]
    factors = carrying_factors(
        [[PastRun(run.report.factors, run.reading.value) for run in members[place].runs] for place in changed]
    )
    carried = list(members)
    for place, own in zip(changed, factors, strict=True):
        if own is not None:
            carried[place] = _with_factors(members[place], own)
    return carried


def _has_other_settings(member: Member) -> bool:
    newest = member.newest.report.factors
    return any(run.report.factors is not newest and run.report.factors != newest for run in member.runs)


def _with_factors(member: Member, factors: Sequence[float]) -> Member:
    runs = tuple(run._replace(carried=factor) for run, factor in zip(member.runs, factors, strict=True))
    return member._replace(runs=runs, value=_value(runs))


def _value(runs: Sequence[Run]) -> float:
    return middle_of_few(values_of(runs[:NEWEST_REPORTS]))


def values_of(runs: Sequence[Run]) -> list[float]:
    """`Run.value` of some runs: a fleet has millions, and to ask each takes twice as long."""
    return [run.reading.value * run.carried for run in runs]


def is_link(roof: RoofKey) -> bool:
    """Whether a roof is that of a link."""
    return roof.level in _LINKS


def middle_of_few(values: list[float]) -> float:
    """Median of one to three values."""
    values.sort()
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _runs_by_roof(reports: Sequence[JudgedReport], window_from: datetime) -> list[tuple[RoofKey, list[Run]]]:
    """
    Runs of one gpu, newest first, under the conditions of the newest run of each roof and method.

    A value in the window rests on runs in the window; only a gpu without any is described by older ones.
    """
    found: list[tuple[RoofKey, list[Run]]] = []
    by_method: dict[str | None, dict[RoofKey, list[Run]]] = defaultdict(dict)
    for report in reports:
        if not report.is_valid:
            continue
        own = by_method[report.conditions.method]
        for roof, reading in report.roofs.items():
            if reading.implausible:
                continue
            runs = own.get(roof)
            if runs is not None:
                if len(runs) < REMEMBERED_REPORTS and _joins(runs[0].report, report, window_from):
                    runs.append(Run(report, reading))
            elif _is_compared(roof):
                runs = own[roof] = [Run(report, reading)]
                found.append((roof, runs))
    return found


@lru_cache(maxsize=1024)
def _is_compared(roof: RoofKey) -> bool:
    return is_judged(roof) or is_link(roof)


def _joins(newest: JudgedReport, older: JudgedReport, window_from: datetime) -> bool:
    if older.conditions is not newest.conditions and older.conditions != newest.conditions:
        return False
    return older.ordered_at >= window_from or newest.ordered_at < window_from
