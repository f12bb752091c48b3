"""
What gpus reach beside what they are held against, all of it by one evaluation.

Pure: verdicts, readings of the reports behind them and figures in; roofs of gpus out, for answers and charts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Protocol
from uuid import UUID

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort, GpuValue, Reading, is_judged
from fleetridge_server.engine.ridge import CohortValues, Compared, GpuRoofs, HeldAgainst, gpu_roofs
from fleetridge_server.engine.rule import NEWEST_REPORTS
from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.evaluation.figures import peers_of
from fleetridge_server.verdicts.evaluation_shapes import EvaluationBody, cohort_of
from fleetridge_server.verdicts.order import CohortColumn
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict, JudgedRoof


class Readings(Protocol):
    """What one report says of its roofs beside the values."""

    @property
    def readings(self) -> Mapping[RoofKey, Reading]:
        """By roof."""

    def cohort(self, roof: RoofKey) -> Cohort:
        """Cohort of one of its roofs."""


def newest_reports(verdict: GpuVerdict) -> list[UUID]:
    """The newest report behind each judged value of a gpu, the newest first."""
    newest = {run.report_id: run.ordered_at for own in verdict.roofs for run in own.runs[:1]}
    return [UUID(report_id) for report_id in sorted(newest, key=lambda own: (newest[own], own), reverse=True)]


def roofs_of(verdict: GpuVerdict, body: EvaluationBody, reports: Mapping[UUID, Readings]) -> GpuRoofs:
    """
    What a gpu reaches by its verdict.

    Args:
        verdict: of the evaluation.
        body: of it.
        reports: what the newest reports behind the values say besides.
    """
    peers = cohort_distributions(body)
    judged = [_compared(verdict.gpu_id, own, peers, reports) for own in verdict.roofs]
    others: dict[RoofKey, GpuValue] = {}
    for report_id in newest_reports(verdict):
        found = reports.get(report_id)
        if found is None:
            continue
        for roof, reading in found.readings.items():
            if not is_judged(roof) and roof not in others:
                others[roof] = GpuValue(verdict.gpu_id, found.cohort(roof), reading.value, newest=reading)
    return gpu_roofs(verdict.gpu_id, judged, others.values())


def drawn_roofs(
    gpu_id: str,
    place: int,
    columns: Mapping[int, CohortColumn],
    body: EvaluationBody,
    peers: Mapping[Cohort, Distribution],
) -> GpuRoofs:
    """What a gpu at a place in the order reaches, by its values alone: for charts of many gpus."""
    judged: list[Compared] = []
    for number, column in columns.items():
        value = column.values[place]
        if not isnan(value):
            shown = body.cohorts[number]
            band, cohort = shown.bands[column.groups[place]], cohort_of(shown)
            against = HeldAgainst(band.n, band.median, band.note)
            judged.append(Compared(GpuValue(gpu_id, cohort, value), against, peers[cohort]))
    return gpu_roofs(gpu_id, judged)


def cohort_distributions(body: EvaluationBody) -> dict[Cohort, Distribution]:
    """Distribution over each judged cohort."""
    return {} if body.figures is None else peers_of(body.figures)


def judged_cohorts(body: EvaluationBody) -> list[int]:
    """Numbers of an evaluation's cohorts that are judged, so without links."""
    return [number for number, own in enumerate(body.cohorts) if is_judged(cohort_of(own).roof)]


def cohort_values(
    body: EvaluationBody, columns: Mapping[int, CohortColumn], *, counted_only: bool = True
) -> CohortValues:
    """
    What gpus count for in some cohorts, by their places in the order.

    Args:
        body: of the evaluation.
        columns: by the numbers of the cohorts.
        counted_only: only the values that describe the cohort, so that medians are those of its figures.
    """
    return {
        cohort_of(body.cohorts[number]): {
            place: value
            for place, (value, counts) in enumerate(zip(column.values, column.counted, strict=True))
            if not isnan(value) and (counts or not counted_only)
        }
        for number, column in columns.items()
    }


def _compared(
    gpu_id: str, own: JudgedRoof, peers: Mapping[Cohort, Distribution], reports: Mapping[UUID, Readings]
) -> Compared:
    roof = RoofKey(**{name: getattr(own.roof, name) for name in RoofKey._fields})
    cohort, newest = Cohort(roof, own.conditions), own.runs[0]
    report = reports.get(UUID(newest.report_id))
    reading = None if report is None else report.readings.get(roof)
    if reading is None:
        reading = Reading(UUID(newest.report_id), newest.ordered_at, newest.value, converged=newest.converged)
    value = GpuValue(gpu_id, cohort, own.value, len(own.runs[:NEWEST_REPORTS]), reading)
    return Compared(value, HeldAgainst(own.band.n, own.band.median, own.band.note), peers[cohort])
