"""
Values: what each gpu counts for in each cohort, the median of its newest runs.

A gpu counts under the conditions of its newest report, as in `engine.cohort`; what it did before it was split, refilled
or measured by an older protocol is history.

Runs before an upgrade are adjusted for it. A new driver that costs 5 % would otherwise make a step within each gpu's
newest runs: values of gpus that ran it once and of those that ran it twice would differ, the noise would look larger
than it is, and faults would hide behind it. Each gpu is paired with itself, and the older runs count times what the
change did to the gpus that met it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from fleetridge.report import RoofKey
from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort, is_judged
from fleetridge_server.engine.evidence import Factors, JudgedReport, RoofReading, with_conflicts
from fleetridge_server.engine.statistics import median

SettingValue = str | float | bool | None


class PastRun(NamedTuple):
    """Settings and value of one run."""

    factors: Factors
    value: float


class _Change(NamedTuple):
    """Settings that changed between two runs: position among the factors, before, after."""

    position: int
    before: SettingValue
    after: SettingValue


class _Boundary(NamedTuple):
    """Changes between the run at `position`, which is the first older one, and the run after it."""

    position: int
    changes: tuple[_Change, ...]


def upgrade_adjustments(gpus: Sequence[Sequence[PastRun]]) -> list[list[float] | None]:
    """
    By what each run of each gpu counts today; None for a gpu whose settings are not known to have changed.

    A change that at least four gpus of a cohort met has the effect that is the median of their ratios: median of the
    first three runs after it over that of the newest three before it. An effect of less than 1 %, or on fewer gpus,
    counts as none.

    Args:
        gpus: runs of each gpu, newest first.
    """
    boundaries = [_boundaries(runs) for runs in gpus]
    ratios: dict[tuple[_Change, ...], list[float]] = defaultdict(list)
    for runs, own in zip(gpus, boundaries, strict=True):
        for after, boundary in enumerate(own):
            ratios[boundary.changes].append(_ratio(runs, own, after))
    effects = {changes: _effect(found) for changes, found in ratios.items()}
    return [_factors(runs, own, effects) if own else None for runs, own in zip(gpus, boundaries, strict=True)]


def _boundaries(runs: Sequence[PastRun]) -> list[_Boundary]:
    """Where settings changed, from the newest on; a reading that is missing is no change."""
    found: list[_Boundary] = []
    known: list[SettingValue] = list(runs[0].factors)
    for position, run in enumerate(runs):
        changes: list[_Change] = []
        for place, was in enumerate(run.factors):
            became = known[place]
            if was is None:
                continue
            if became is not None and not _is_same(was, became):
                changes.append(_Change(place, was, became))
            known[place] = was
        if changes:
            found.append(_Boundary(position, tuple(changes)))
    return found


def _is_same(one: SettingValue, other: SettingValue) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return round(one) == round(other)
    return one == other


def _ratio(runs: Sequence[PastRun], boundaries: Sequence[_Boundary], place: int) -> float:
    """After over before, of the runs next to a boundary and within its neighbours."""
    cut = boundaries[place].position
    first = boundaries[place - 1].position if place else 0
    end = boundaries[place + 1].position if place + 1 < len(boundaries) else len(runs)
    after = runs[max(first, cut - rule.NEWEST_REPORTS) : cut]
    before = runs[cut : min(end, cut + rule.NEWEST_REPORTS)]
    return median(run.value for run in after) / median(run.value for run in before)


def _effect(ratios: Sequence[float]) -> float:
    if len(ratios) < rule.FEWEST_PEERS:
        return 1.0
    effect = median(ratios)
    return effect if abs(effect - 1) >= rule.SMALLEST_UPGRADE_EFFECT else 1.0


def _factors(
    runs: Sequence[PastRun], boundaries: Sequence[_Boundary], effects: dict[tuple[_Change, ...], float]
) -> list[float]:
    """Product of the effects between each run and the newest."""
    at = {boundary.position: effects[boundary.changes] for boundary in boundaries}
    factors: list[float] = []
    factor = 1.0
    for position in range(len(runs)):
        factor *= at.get(position, 1.0)
        factors.append(factor)
    return factors


class Run(NamedTuple):
    """
    One roof of one valid report.

    Attributes:
        adjustment: for upgrades since then (`upgrade_adjustments`); 1 where nothing is known to have
            changed.
        fell_with_node: it lost a quarter, and so did every other gpu of its node within the hour.
    """

    report: JudgedReport
    reading: RoofReading
    adjustment: float = 1.0
    fell_with_node: bool = False

    @property
    def value(self) -> float:
        """What the run counts for today: what was measured, times what upgrades did since."""
        return self.reading.value * self.adjustment


class Member(NamedTuple):
    """
    A gpu in one cohort.

    Attributes:
        runs: its newest valid runs under the cohort's conditions, newest first, at most REMEMBERED_REPORTS, without
            those that belong to its node (`engine.collapses`).
        value: median of the newest (at most three) of them; of those in the window, where there are any.
        value_runs: how many runs these are.
        in_window: whether the value is recent enough to move the cohort's median.
        is_stable: False where all that is known are reports that call themselves unstable: shown, without a vote, and
            accused of nothing.
    """

    gpu_id: str
    cohort: Cohort
    runs: tuple[Run, ...]
    value: float
    value_runs: int
    in_window: bool
    is_stable: bool = True

    @property
    def newest(self) -> Run:
        """The newest run."""
        return self.runs[0]

    def with_runs(self, runs: tuple[Run, ...]) -> Member:
        """The gpu with other runs, newest first, at least one: its value follows from them."""
        count = min(len(runs), rule.NEWEST_REPORTS, self.value_runs)
        return self._replace(runs=runs, value=_value(runs, count), value_runs=count)


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
    window_from = as_of - rule.MEASUREMENT_WINDOW
    cohorts: dict[Cohort, list[Member]] = {}
    # Most gpus of a cohort share the very conditions: to find it by these takes a quarter of the time.
    found: dict[tuple[RoofKey, int], tuple[Cohort, list[Member]]] = {}
    for gpu_id, reports in histories.items():
        for roof, runs in _runs_by_roof(reports):
            newest = runs[0].report
            key = roof, id(newest.conditions)
            if key not in found:
                found[key] = _cohort_of(cohorts, Cohort(roof, newest.conditions))
            cohort, members = found[key]
            in_window = newest.ordered_at >= window_from
            count = _value_runs(runs, window_from) if in_window else min(len(runs), rule.NEWEST_REPORTS)
            is_stable = not newest.health.unstable
            members.append(Member(gpu_id, cohort, tuple(runs), _value(runs, count), count, in_window, is_stable))
    return {cohort: _adjusted(members) for cohort, members in cohorts.items()}


def _cohort_of(cohorts: dict[Cohort, list[Member]], wanted: Cohort) -> tuple[Cohort, list[Member]]:
    """The cohort that equals the wanted one, the same object for all its members, and these."""
    members = cohorts.setdefault(wanted, [])
    return next(cohort for cohort in cohorts if cohort == wanted), members


def _adjusted(members: list[Member]) -> list[Member]:
    """Members of a cohort, with runs before an upgrade worth what they would be after it."""
    # Most fleets are not being upgraded; these are the gpus for which there is anything to find out.
    changed = [place for place, member in enumerate(members) if _has_other_settings(member)]
    factors = upgrade_adjustments(
        [[PastRun(run.report.factors, run.reading.value) for run in members[place].runs] for place in changed]
    )
    adjusted = list(members)
    for place, own in zip(changed, factors, strict=True):
        if own is not None:
            adjusted[place] = _with_factors(members[place], own)
    return adjusted


def _has_other_settings(member: Member) -> bool:
    newest = member.newest.report.factors
    return any(run.report.factors is not newest and run.report.factors != newest for run in member.runs)


def _with_factors(member: Member, factors: Sequence[float]) -> Member:
    runs = tuple(run._replace(adjustment=factor) for run, factor in zip(member.runs, factors, strict=True))
    return member.with_runs(runs)


def _value(runs: Sequence[Run], count: int) -> float:
    return middle_of_few(values_of(runs[:count]))


def _value_runs(runs: Sequence[Run], window_from: datetime) -> int:
    """How many of the newest three runs are in the window."""
    count = min(len(runs), rule.NEWEST_REPORTS)
    while runs[count - 1].report.ordered_at < window_from:
        count -= 1
    return count


def values_of(runs: Sequence[Run]) -> list[float]:
    """`Run.value` of some runs: a fleet has millions, and to ask each takes twice as long."""
    return [run.reading.value * run.adjustment for run in runs]


def is_link(roof: RoofKey) -> bool:
    """Whether a roof is that of a link."""
    return roof.level in rule.LINK_LEVELS


def middle_of_few(values: list[float]) -> float:
    """Median of one to three values."""
    values.sort()
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _runs_by_roof(reports: Sequence[JudgedReport]) -> list[tuple[RoofKey, list[Run]]]:
    """
    Runs of one gpu, newest first, under the conditions of the newest run of each roof and method.

    Reports that call themselves unstable stand in only where there are no others of a roof.
    """
    if not any(report.health.unstable for report in reports):
        return _runs_of(reports)
    stable = _runs_of([report for report in reports if not report.health.unstable])
    known = {(roof, runs[0].report.conditions.method) for roof, runs in stable}
    unstable = _runs_of([report for report in reports if report.health.unstable])
    return [*stable, *(own for own in unstable if (own[0], own[1][0].report.conditions.method) not in known)]


def _runs_of(reports: Sequence[JudgedReport]) -> list[tuple[RoofKey, list[Run]]]:
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
                if len(runs) < rule.REMEMBERED_REPORTS and _has_conditions_of(report, runs[0].report):
                    runs.append(Run(report, reading))
            elif _is_compared(roof):
                runs = own[roof] = [Run(report, reading)]
                found.append((roof, runs))
    return found


@lru_cache(maxsize=1024)
def _is_compared(roof: RoofKey) -> bool:
    return is_judged(roof) or is_link(roof)


def _has_conditions_of(one: JudgedReport, other: JudgedReport) -> bool:
    return one.conditions is other.conditions or one.conditions == other.conditions
