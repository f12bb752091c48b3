"""
What verdicts need of one gpu's past: few reports, its drifts, and what stands around its newest upgrade.

A function of the gpu's reports alone, so that it can be kept until the gpu reports again, and that the order in which
reports arrive never matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import NEWEST_REPORTS, Cohort, Conditions
from fleetridge_server.record import record
from fleetridge_server.verdict.drift import Drift, Look, current_epoch, drift_of_epoch, looks_of
from fleetridge_server.verdict.epochs import EpochChange, PairedEffect, epoch_effects
from fleetridge_server.verdict.evidence import JudgedReport
from fleetridge_server.verdict.histories import runs_by_roof
from fleetridge_server.verdict.members import REMEMBERED_REPORTS
from fleetridge_server.verdict.scale import FLOOR_WHEN_UNKNOWN, HIGHEST_FLOOR

# Drift is worked out beside both, since the scale of the cohort is known only when all gpus are looked at: the usual
# floor, at which a healthy gpu gives no alarm in a hundred runs, and the largest, for fleets noisier than that.
DRIFT_FLOORS = (FLOOR_WHEN_UNKNOWN, HIGHEST_FLOOR)

# Two failed attempts in a row leave a gpu unmeasured.
_FAILURES_THAT_COUNT = 2


@record
class GpuHistory:
    """
    One gpu's past, as far as verdicts need it.

    Attributes:
        reports: newest first: all that `evaluate` would look at among all reports of the gpu.
        drifts: by roof, beside each of DRIFT_FLOORS.
        steps: looks around the newest change of epoch, by roof, oldest first; none where nothing changed.
    """

    reports: tuple[JudgedReport, ...]
    drifts: tuple[Mapping[RoofKey, Drift], ...]
    steps: Mapping[RoofKey, tuple[Look, ...]]


def gpu_history(reports: Sequence[JudgedReport]) -> GpuHistory:
    """What to keep of a gpu's reports, newest first."""
    looks = {roof: looks_of(runs) for roof, runs in runs_by_roof(reports).items()}
    epochs = {roof: current_epoch(own) for roof, own in looks.items()}
    drifts = tuple({roof: drift_of_epoch(own, floor) for roof, own in epochs.items()} for floor in DRIFT_FLOORS)
    steps = {roof: step for roof, own in looks.items() if (step := _around_change(own, len(epochs[roof])))}
    return GpuHistory(tuple(_kept(reports)), drifts, steps)


def fleet_drifts(
    histories: Mapping[str, GpuHistory], floors: Mapping[Cohort, float]
) -> dict[str, dict[RoofKey, Drift]]:
    """Drifts of all gpus, each beside the scale of its cohort; the usual one where no scale is known."""
    if not floors:
        return {gpu_id: dict(history.drifts[0]) for gpu_id, history in histories.items() if history.drifts[0]}
    return {gpu_id: found for gpu_id, history in histories.items() if (found := _drifts(history, floors))}


def fleet_upgrades(histories: Mapping[str, GpuHistory]) -> dict[RoofKey, dict[EpochChange, PairedEffect]]:
    """Effects of the newest change of each factor, by roof."""
    looks: dict[RoofKey, dict[str, Sequence[Look]]] = defaultdict(dict)
    for gpu_id, history in histories.items():
        for roof, steps in history.steps.items():
            looks[roof][gpu_id] = steps
    return {roof: effects for roof, by_gpu in looks.items() if (effects := epoch_effects(by_gpu))}


def has_drifts(histories: Iterable[GpuHistory]) -> bool:
    """Whether any gpu has a baseline; without one the scales of the cohorts decide nothing about drift."""
    return any(drift.status != "learning" for history in histories for drift in history.drifts[0].values())


def _drifts(history: GpuHistory, floors: Mapping[Cohort, float]) -> dict[RoofKey, Drift]:
    found: dict[RoofKey, Drift] = {}
    for roof, usual in history.drifts[0].items():
        newest = next((report for report in history.reports if report.is_valid and roof in report.roofs), None)
        floor = None if newest is None else floors.get(Cohort(roof, newest.conditions))
        is_noisy = floor is not None and floor > DRIFT_FLOORS[0]
        found[roof] = history.drifts[-1][roof] if is_noisy else usual
    return found


def _around_change(looks: Sequence[Look], since: int) -> tuple[Look, ...]:
    """Looks next to the newest change of epoch, `since` which there were some, as many as its effect is made from."""
    cut = len(looks) - since
    return tuple(looks[max(0, cut - NEWEST_REPORTS) : cut + NEWEST_REPORTS]) if cut else ()


def _kept(reports: Sequence[JudgedReport]) -> list[JudgedReport]:
    """All reports that can decide anything, in their order."""
    kept = _runs_kept(reports) | _states_kept(reports)
    return [report for report in reports if report.report_id in kept]


def _states_kept(reports: Sequence[JudgedReport]) -> set[str]:
    """Those that tell where a gpu is, and whether it is measured: the newest of each kind."""
    tried = [report for report in reports if report.outcome != "skipped"][:_FAILURES_THAT_COUNT]
    kinds: tuple[Callable[[JudgedReport], bool], ...] = (
        lambda _report: True,
        lambda report: report.is_measured,
        lambda report: report.is_measured and report.contended,
        lambda report: report.is_valid,
        lambda report: report.conflict,
    )
    newest = (next((report for report in reports if is_of_kind(report)), None) for is_of_kind in kinds)
    return {report.report_id for report in (*tried, *newest) if report is not None}


def _runs_kept(reports: Sequence[JudgedReport]) -> set[str]:
    """Those whose values count: some for each roof and method, and the newest that cannot be right."""
    kept: set[str] = set()
    counted: dict[tuple[str | None, RoofKey], tuple[Conditions, int]] = {}
    doubted: set[RoofKey] = set()
    for report in reports:
        if not report.is_valid:
            continue
        for roof, reading in report.roofs.items():
            if reading.implausible:
                if roof not in doubted:
                    doubted.add(roof)
                    kept.add(report.report_id)
                continue
            key = report.conditions.method, roof
            conditions, count = counted.get(key, (report.conditions, 0))
            if count < REMEMBERED_REPORTS and conditions == report.conditions:
                counted[key] = conditions, count + 1
                kept.add(report.report_id)
    return kept
