"""One gpu: who and where it is, what it reaches against its peers, what it reported."""

from dataclasses import dataclass
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from fleetridge_server.db.database import Database
from fleetridge_server.db.tables import Device, Report
from fleetridge_server.engine.cohort import Span
from fleetridge_server.engine.ridge import Filter, GpuRoofs
from fleetridge_server.evaluation.judgement import evaluation_for
from fleetridge_server.fleet.changes import changes_of_gpu
from fleetridge_server.fleet.locations import location_of_gpu
from fleetridge_server.fleet.reports import (
    Before,
    judged_roofs,
    newest_unjudged,
    readings_of,
    reports_before,
    reports_of_gpu,
    settings,
)
from fleetridge_server.http.answers import answered, documented
from fleetridge_server.http.parameters import (
    DtypeFilter,
    MomentQuery,
    OpenDatabase,
    PageQuery,
    Position,
    RegimeFilter,
    is_asked,
    list_id,
    moment,
    named,
    not_of_this_list,
    page,
    position_after,
    the_gpu,
)
from fleetridge_server.responses import device as device_answers
from fleetridge_server.responses.gpu import (
    GpuAnswer,
    GpuHistoryAnswer,
    VerdictChangeShown,
    around_changes,
    changes_shown,
    epochs_of,
    epochs_shown,
    runs_shown,
)
from fleetridge_server.responses.verdict import evaluated_by, newest_reports, roofs_of, state_as_verdict
from fleetridge_server.text import gpu as gpu_text
from fleetridge_server.verdicts.evaluation_shapes import cohort_of
from fleetridge_server.verdicts.roof_shapes import shape_of
from fleetridge_server.verdicts.stored import DatedVerdict, EvaluationRef, summaries_of, verdicts_of

router = APIRouter(tags=["gpus"])


_MOST_VERDICT_CHANGES = 100

Simulated = Annotated[Literal["simulated"] | None, Field(description="`simulated` for a made-up gpu, else a real one.")]


class GpuQuery(MomentQuery):
    """Parameters of one gpu."""

    cluster: Simulated = None
    limit: Annotated[int, Field(ge=1, le=1000, description="Reports to list, newest first.")] = 20


class HistoryQuery(PageQuery):
    """Parameters of one gpu's history."""

    cluster: Simulated = None
    dtype: DtypeFilter = None
    regime: RegimeFilter = None


# Before the route of one gpu, whose address takes everything that follows.
@router.get(
    "/gpus/{gpu_id:path}/history",
    response_model=GpuHistoryAnswer,
    responses=documented({404: "No gpu has this id."}),
)
def get_gpu_history(
    request: Request, database: OpenDatabase, gpu_id: str, query: Annotated[HistoryQuery, Query()]
) -> Response:
    """
    One gpu's past, newest first: its runs with clock, power and temperature, what changed, and what was said of it.

    A page holds runs; epochs, changes, drifts and verdicts are of the whole past, whatever the page.
    """
    return answered(request, read_gpu_history(database, gpu_id, query), gpu_text.gpu_history)


def read_gpu_history(database: Database, gpu_id: str, query: HistoryQuery) -> GpuHistoryAnswer:
    """The answer. Raises ProblemError: 404, there is no such gpu; 422, the position is of another list."""
    this_list = list_id(f"/gpus/{gpu_id}/history", query)
    position = position_after(query.after, this_list)
    span = Span(moment(query.as_of, position), simulated=query.cluster is not None)
    asked = is_asked(query.as_of, position)
    only = Filter(query.dtype, query.regime)
    with database.reading() as session:
        gpu = the_gpu(session, gpu_id, simulated=span.simulated)
        location = location_of_gpu(session, gpu.id, span)
        device = session.get_one(Device, gpu.device_id if location is None else location.device_id)
        names = named(session, device)
        reports = reports_before(session, gpu.id, as_of=span.as_of, before=_before(position), limit=query.limit + 1)
        shown, following = page(reports, query.limit, lambda own: _position(own.report, this_list, span, asked=asked))
        epochs = epochs_of(settings(session, gpu.id, as_of=span.as_of))
        around = [run.report_id for pair in around_changes(epochs) for runs in pair for run in runs]
        roofs = {
            report_id: {key: roof for key, roof in own.items() if only.takes_roof(key)}
            for report_id, own in judged_roofs(session, {own.report.id for own in shown} | set(around)).items()
        }
        ref = evaluation_for(session, device.id, span, explicit=asked)
        said = None if ref is None else verdicts_of(session, ref, [gpu_id]).get(gpu_id)
        verdict_changes = changes_of_gpu(session, gpu_id, span, limit=_MOST_VERDICT_CHANGES)
    return GpuHistoryAnswer(
        gpu_id=gpu_id,
        device=names,
        as_of=span.as_of,
        epochs=epochs_shown(epochs),
        changes=changes_shown(epochs, roofs),
        drifts=() if said is None else tuple(own for own in said.verdict.drifts if only.takes_roof(own.roof)),
        verdict_changes=tuple(shape_of(VerdictChangeShown, change) for change in verdict_changes),
        runs=runs_shown(shown, roofs, epochs),
        next=following,
    )


@router.get("/gpus/{gpu_id:path}", response_model=GpuAnswer, responses=documented({404: "No gpu has this id."}))
def get_gpu(request: Request, database: OpenDatabase, gpu_id: str, query: Annotated[GpuQuery, Query()]) -> Response:
    """
    One gpu, by its UUID or, where the driver gives none, by the `noid-…` that stands in for it.

    Its roofs are held against all gpus of its device that were measured alike; `other_roofs` are shown only.
    """
    return answered(request, read_gpu(database, gpu_id, query).answer, gpu_text.gpu)


@dataclass(frozen=True, slots=True)
class GpuRead:
    """The answer, and the gpu's roofs beside its peers', which it was made from."""

    answer: GpuAnswer
    roofs: GpuRoofs


def read_gpu(database: Database, gpu_id: str, query: GpuQuery) -> GpuRead:
    """The answer with what it was made from. Raises ProblemError: 404, there is no such gpu."""
    span = Span(moment(query.as_of), simulated=query.cluster is not None)
    with database.reading() as session:
        gpu = the_gpu(session, gpu_id, simulated=span.simulated)
        location = location_of_gpu(session, gpu.id, span, by_verdict=query.as_of is None)
        device = session.get_one(Device, gpu.device_id if location is None else location.device_id)
        names = named(session, device)
        ref = evaluation_for(session, device.id, span, explicit=query.as_of is not None)
        said = None if ref is None else _said(session, ref, gpu_id)
        own = _roofs(session, gpu_id, ref, said)
        waiting = () if location is None or (ref is not None and ref.unstored is not None) else (location,)
        unjudged = newest_unjudged(session, waiting, None if ref is None else ref.judged_until, span.as_of).get(gpu.id)
        reports = [
            device_answers.report_summary(named)
            for named in reports_of_gpu(session, gpu.id, as_of=span.as_of, limit=query.limit)
        ]
    # A link that is held against peers stands in the verdict.
    links = frozenset(cohort_of(link).roof for link in (() if said is None else said.verdict.links))
    answer = shape_of(
        GpuAnswer,
        gpu,
        gpu_id=gpu.identity,
        as_of=span.as_of,
        **evaluated_by(ref, device=device.slug, asked=query.as_of),
        device=names,
        cluster=gpu.cluster if location is None else location.cluster,
        node=None if location is None else location.node,
        index=gpu.gpu_index,
        verdict_since=None if said is None else said.since,
        verdict=None if said is None else said.verdict,
        latest=reports[0] if reports else None,
        not_judged_yet=None if unjudged is None else device_answers.report_summary(unjudged),
        **device_answers.gpu_figures(own, None if said is None else said.verdict, span.as_of),
        other_roofs=tuple(
            device_answers.shown_roof(value, span.as_of) for value in own.others if value.cohort.roof not in links
        ),
        reports=tuple(reports),
    )
    return GpuRead(answer, own)


def _said(session: Session, ref: EvaluationRef, gpu_id: str) -> DatedVerdict | None:
    """What an evaluation says of a gpu: as the lists do, where its numbers are gone what is still known."""
    if ref.has_verdicts:
        return verdicts_of(session, ref, [gpu_id]).get(gpu_id)
    summary = summaries_of(session, ref, gpu_ids=[gpu_id]).get(gpu_id)
    return None if summary is None else DatedVerdict(summary.since, state_as_verdict(summary))


def _roofs(session: Session, gpu_id: str, ref: EvaluationRef | None, said: DatedVerdict | None) -> GpuRoofs:
    """What a gpu reaches beside what it is held against, by its verdict."""
    if ref is None or said is None:
        return GpuRoofs(gpu_id, (), (), ())
    return roofs_of(said.verdict, ref.body, readings_of(session, newest_reports(said.verdict)))


def _position(report: Report, of_list: str, span: Span, *, asked: bool) -> Position:
    return Position(of_list=of_list, as_of=span.as_of, asked=asked, name=str(report.id), at=report.ordered_at)


def _before(position: Position | None) -> Before | None:
    """
    Place in a gpu's reports that a token stands for.

    Raises:
        ProblemError: 422, the token was made by somebody else.
    """
    if position is None:
        return None
    try:
        report_id = UUID(position.name)
    except ValueError as error:
        raise not_of_this_list() from error
    if position.at is None:
        raise not_of_this_list()
    return Before(position.at, report_id)
