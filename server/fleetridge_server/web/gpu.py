"""The page of one gpu: what is said of it, by which numbers, why, and what it did over time."""

from dataclasses import dataclass
from datetime import datetime, timezone
from uuid import UUID

from fastapi import APIRouter, Request, Response

from fleetridge.report.points import Point
from fleetridge_server.api.alerts import MarksQuery, read_marks
from fleetridge_server.api.gpus import GpuQuery, GpuRead, HistoryQuery, read_gpu, read_gpu_history
from fleetridge_server.api.reports import the_document
from fleetridge_server.db.database import Database
from fleetridge_server.http.parameters import OpenDatabase
from fleetridge_server.problems import ProblemError
from fleetridge_server.responses.alert import MarkShown
from fleetridge_server.responses.gpu import GpuAnswer, GpuHistoryAnswer
from fleetridge_server.text.gpu import drift_words
from fleetridge_server.web.charts.history import history_svg
from fleetridge_server.web.charts.roofline import roofline_svg
from fleetridge_server.web.charts.svg import inline_chart
from fleetridge_server.web.evidence_bundle import RoofSum, bundle, roof_sum
from fleetridge_server.web.forms import query_of, visitor_of
from fleetridge_server.web.gpu_charts import PointLine, gpu_history, gpu_roofline, point_lines, points_of
from fleetridge_server.web.rendering import Frame, Links, attachment, html, picture
from fleetridge_server.web.words import StateShown, few_peers_words, gpu_label

router = APIRouter(include_in_schema=False)

# Half a year of daily sweeps; the API has all, page by page.
_RUNS = 200
_RUNS_IN_TABLE = 12

# What a vendor looks at; the reports behind the verdict are among them.
_BUNDLED_REPORTS = 10

_MOST_MARKS = 1000

_UNKNOWN = "no verdict yet: the newest evaluation does not know this gpu"


@dataclass(frozen=True, slots=True)
class GpuPage:
    """
    What the page shows: of the runs the newest, of which there are `runs_shown` here.

    Attributes:
        said: one sentence.
        few_peers: note where there are too few gpus of its kind to compare it with.
        points: of the newest measured report, `points_report` its id and `points_note` why there are none.
        driver: of its newest report that names one; empty where none does.
        runs_shown: how many of the history's runs, newest first, the page lists.
    """

    answer: GpuAnswer
    history: GpuHistoryAnswer
    label: str
    shown: StateShown | None
    said: str
    few_peers: str
    sums: tuple[RoofSum, ...]
    drifts: tuple[str, ...]
    roofline: str
    chart: str
    points: tuple[PointLine, ...]
    points_report: str
    points_note: str
    runs_shown: int
    driver: str
    marks: tuple[MarkShown, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Points of the newest measured report, or why there are none."""

    report_id: str = ""
    points: tuple[Point, ...] = ()
    note: str = ""


@router.get("/ui/gpus/{gpu_id:path}/roofline.svg")
def get_gpu_roofline(request: Request, database: OpenDatabase, gpu_id: str) -> Response:
    """The roofline alone."""
    read = read_gpu(database, gpu_id, query_of(request, GpuQuery))
    chart = gpu_roofline(read.answer, read.roofs, newest_sweep(database, read.answer).points)
    if chart is None:
        raise _nothing_to_draw()
    return picture(roofline_svg(chart))


@router.get("/ui/gpus/{gpu_id:path}/history.svg")
def get_gpu_history_chart(request: Request, database: OpenDatabase, gpu_id: str) -> Response:
    """The history alone."""
    query = query_of(request, GpuQuery)
    read = read_gpu(database, gpu_id, query)
    chart = gpu_history(read.answer, _history(database, gpu_id, query), read.roofs)
    if chart is None:
        raise _nothing_to_draw()
    return picture(history_svg(chart))


@router.get("/ui/gpus/{gpu_id:path}/evidence.zip")
def get_evidence(request: Request, database: OpenDatabase, gpu_id: str) -> Response:
    """All that is known of a gpu in one file, to go with a card that is returned."""
    query = query_of(request, GpuQuery)
    read = read_gpu(database, gpu_id, query)
    kept = (_kept(database, report.report_id) for report in read.answer.reports[:_BUNDLED_REPORTS])
    documents = {report_id: document for report_id, document in kept if document}
    content = bundle(read, _history(database, gpu_id, query), documents, made_at=datetime.now(timezone.utc))
    return attachment(content, "application/zip", "fleetridge-evidence.zip")


@router.get("/ui/gpus/{gpu_id:path}")
def get_gpu_page(request: Request, database: OpenDatabase, gpu_id: str) -> Response:
    """One gpu: its verdict with the arithmetic, its roofline, its history."""
    query = query_of(request, GpuQuery)
    read = read_gpu(database, gpu_id, query)
    links = Links(simulated=query.cluster is not None, as_of=query.as_of)
    marks = read_marks(database, MarksQuery(cluster=query.cluster, limit=_MOST_MARKS)).marks
    own = tuple(mark for mark in marks if mark.gpu_id == gpu_id)
    shown = gpu_page(read, _history(database, gpu_id, query), newest_sweep(database, read.answer), own)
    api = links.api("gpus", gpu_id)
    return html("gpu.html", Frame(shown.label, links, read.answer.as_of, api, visitor_of(request)), shown)


def gpu_page(read: GpuRead, history: GpuHistoryAnswer, sweep: Sweep, marks: tuple[MarkShown, ...] = ()) -> GpuPage:
    """The page from the answers, the newest sweep and the marks in force on this gpu alone."""
    answer, verdict = read.answer, read.answer.verdict
    roofline = gpu_roofline(answer, read.roofs, sweep.points)
    chart = gpu_history(answer, history, read.roofs)
    judged = () if verdict is None else (*verdict.roofs, *verdict.links)
    return GpuPage(
        answer=answer,
        history=history,
        label=gpu_label(answer.node, answer.index, answer.gpu_id),
        shown=None if verdict is None else StateShown(verdict.state, verdict.last_state),
        said=(answer.evaluation_note or _UNKNOWN) if verdict is None else verdict.text,
        few_peers=few_peers_words(max((ridge.peers for ridge in answer.ridges), default=0)),
        sums=tuple(roof_sum(own) for own in sorted(judged, key=lambda own: (own.standing == "clear", -own.loss))),
        drifts=() if verdict is None else tuple(map(drift_words, verdict.drifts)),
        roofline="" if roofline is None else inline_chart(roofline_svg, roofline),
        chart="" if chart is None else inline_chart(history_svg, chart),
        points=point_lines(sweep.points),
        points_report=sweep.report_id,
        points_note=sweep.note,
        runs_shown=_RUNS_IN_TABLE,
        driver=next((report.driver for report in answer.reports if report.driver), ""),
        marks=marks,
    )


def newest_sweep(database: Database, answer: GpuAnswer) -> Sweep:
    """Points of the newest measured report of a gpu."""
    newest: UUID | None = next((own.report_id for own in answer.reports if own.outcome == "measured"), None)
    if newest is None:
        return Sweep(note="none of its newest reports measured anything")
    try:
        with database.reading() as session:
            _, document = the_document(session, newest)
    except ProblemError as problem:
        return Sweep(note=problem.problem.detail)
    points = points_of(document)
    return Sweep(str(newest), points, "" if points else "its newest report lists no points")


def _kept(database: Database, report_id: UUID) -> tuple[str, bytes]:
    """A report as it was sent, empty where its document is no longer kept; the bundle says how many are there."""
    try:
        with database.reading() as session:
            return str(report_id), the_document(session, report_id)[1]
    except ProblemError:
        return str(report_id), b""


def _history(database: Database, gpu_id: str, query: GpuQuery) -> GpuHistoryAnswer:
    return read_gpu_history(database, gpu_id, HistoryQuery(cluster=query.cluster, as_of=query.as_of, limit=_RUNS))


def _nothing_to_draw() -> ProblemError:
    detail = "this gpu was never measured; its page says how its runs ended"
    return ProblemError(404, "nothing_measured", "There is nothing to draw", detail)
