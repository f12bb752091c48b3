"""
A verdict in answers: by which evaluation, in short, and what the gpu reaches beside what it is held against.

Pure: verdicts, readings of the reports behind them and figures in; roofs of gpus out, for answers and charts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from math import isnan
from typing import Any
from uuid import UUID

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort, GpuValue, Reading, is_judged
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.engine.ridge import CohortValues, Compared, Filter, GpuRoofs, HeldAgainst, gpu_roofs
from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.evaluation.figures import peers_of
from fleetridge_server.fleet.locations import GpuLocation
from fleetridge_server.fleet.reports import NamedReport, ReportReadings
from fleetridge_server.verdicts.evaluation_shapes import CohortFigures, EvaluationBody, cohort_of
from fleetridge_server.verdicts.fleet_order import CohortColumn
from fleetridge_server.verdicts.roof_shapes import Answer, shape_of
from fleetridge_server.verdicts.stored import DatedVerdict, EvaluationRef, VerdictSummary
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict, HealthShown, JudgedRoof, ReasonShown, VerdictFlag


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """
    A gpu of a list.

    Attributes:
        roofs: what it reaches, those that are listed.
        said: its verdict; None where the evaluation knows nothing of it, or not its numbers any more.
        summary: the same in a line, where that is all that is kept.
        unjudged: its newest report that the evaluation does not know yet.
    """

    location: GpuLocation
    roofs: GpuRoofs
    said: DatedVerdict | None = None
    summary: VerdictSummary | None = None
    unjudged: NamedReport | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """
    What charts are made from.

    Attributes:
        gpus: to draw, worst first; summaries: what is said of them in a line.
        listed: how many gpus the filters take.
        is_complete: whether `gpus` are all of them.
        quantiles: of all peers in each listed roof, where they are not.
    """

    gpus: tuple[ListedGpu, ...] = ()
    summaries: Mapping[str, VerdictSummary] = field(default_factory=dict)
    listed: int = 0
    is_complete: bool = True
    quantiles: tuple[CohortFigures, ...] = ()


def newest_reports(verdict: GpuVerdict) -> list[UUID]:
    """The newest report behind each judged value of a gpu, the newest first."""
    newest = {run.report_id: run.ordered_at for own in verdict.roofs for run in own.runs[:1]}
    return [UUID(report_id) for report_id in sorted(newest, key=lambda own: (newest[own], own), reverse=True)]


def roofs_of(verdict: GpuVerdict, body: EvaluationBody, reports: Mapping[UUID, ReportReadings]) -> GpuRoofs:
    """What a gpu reaches by its verdict; `reports` has what the newest ones behind the values say besides."""
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


def cohorts_under(body: EvaluationBody, only: Filter) -> list[int]:
    """Those of them that ridges of the roofs that a filter takes rest on: these roofs, and memory."""
    roofs = ((number, body.cohorts[number].roof) for number in judged_cohorts(body))
    return [number for number, roof in roofs if roof.kind == "memory" or only.takes_roof(roof)]


def cohort_values(body: EvaluationBody, columns: Mapping[int, CohortColumn]) -> CohortValues:
    """What gpus count for in some cohorts, by their places in the order; those alone that the figures describe."""
    return {
        cohort_of(body.cohorts[number]): {
            place: value
            for place, (value, counts) in enumerate(zip(column.values, column.counted, strict=True))
            if not isnan(value) and counts
        }
        for number, column in columns.items()
    }


def _compared(
    gpu_id: str, own: JudgedRoof, peers: Mapping[Cohort, Distribution], reports: Mapping[UUID, ReportReadings]
) -> Compared:
    cohort, newest = cohort_of(own), own.runs[0]
    report = reports.get(UUID(newest.report_id))
    reading = None if report is None else report.readings.get(cohort.roof)
    if reading is None:
        reading = Reading(UUID(newest.report_id), newest.ordered_at, newest.value, converged=newest.converged)
    value = GpuValue(gpu_id, cohort, own.value, own.value_runs, reading)
    return Compared(value, HeldAgainst(own.band.n, own.band.median, own.band.note), peers[cohort])


class EvaluatedAnswer(Answer):
    """
    Base of answers with verdicts: as of when the evaluation judged, when it was made, and by which rules.

    Null where no evaluation answers for the time; `evaluation_note` then says what to do. `evaluated_at` alone is null
    where none was stored and this one was made for the answer.
    """

    evaluated_as_of: datetime | None
    evaluated_at: datetime | None
    rule_version: int | None
    evaluation_note: str | None


class VerdictShown(Answer):
    """
    What is said of one gpu, in short; `GET /gpus/{gpu_id}` has every number that it rests on.

    `state` is the first that holds, `last_state` what its runs say where measurements are missing or unusable; `since`
    is when it was said first, `slow_since` since when the gpu has been slow by its runs (with `slow_since_is_bound` or
    before); `loss` the largest over its judged roofs, as a fraction of what its peers reach; `next_step` the one thing
    to do next, null where there is none; `health` what needs action whatever the rates are.
    """

    state: State
    last_state: State | None
    since: datetime
    text: str
    loss: float | None
    flags: tuple[VerdictFlag, ...]
    reasons: tuple[ReasonShown, ...]
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False
    next_step: str | None = None
    health: tuple[HealthShown, ...] = ()


def evaluated_by(evaluation: EvaluationRef | None, *, device: str, asked: datetime | None) -> dict[str, Any]:
    """Fields of an answer on a device (its slug) that say on which evaluation it rests; `asked` is None for now."""
    if evaluation is None:
        none = dict.fromkeys(("evaluated_as_of", "evaluated_at", "rule_version"))
        return {**none, "evaluation_note": _note(device, asked)}
    return {
        "evaluated_as_of": evaluation.as_of,
        "evaluated_at": evaluation.made_at,
        "rule_version": evaluation.rule_version,
        "evaluation_note": None if evaluation.has_verdicts else _without_gpus(device, asked),
    }


def verdict_shown(since: datetime, verdict: GpuVerdict) -> VerdictShown:
    """A verdict in short."""
    return shape_of(VerdictShown, verdict, since=since, loss=verdict.worst_loss)


_NOT_KEPT = "its numbers are no longer kept for that time"


def state_shown(summary: VerdictSummary) -> VerdictShown:
    """What is known of a verdict whose numbers are no longer kept."""
    return VerdictShown(
        state=summary.state,
        last_state=summary.last_state,
        since=summary.since,
        text=_NOT_KEPT,
        loss=summary.loss,
        flags=(),
        reasons=(),
    )


def state_as_verdict(summary: VerdictSummary) -> GpuVerdict:
    """The same in the form of a whole verdict, without any of the numbers."""
    return GpuVerdict(
        gpu_id=summary.gpu_id,
        state=summary.state,
        last_state=summary.last_state,
        text=_NOT_KEPT,
        reason=None,
        worst_loss=summary.loss,
        flags=(),
        reasons=(),
        roofs=(),
        links=(),
        drifts=(),
        excuses=(),
    )


def _note(device: str, asked: datetime | None) -> str:
    if asked is None:
        return f"not evaluated yet; the server does so soon, or run `fleetridge-server evaluate --device {device}`"
    return f"no evaluation is stored for that time; {_remedy(device, asked)}"


def _without_gpus(device: str, asked: datetime | None) -> str:
    if asked is None:
        return "the numbers of single gpus are not kept"
    return f"the numbers of single gpus are no longer kept for that time; {_remedy(device, asked)}"


def _remedy(device: str, asked: datetime) -> str:
    time = asked.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return f"run `fleetridge-server evaluate --device {device} --as-of {time}`, which stores one, and ask again"
