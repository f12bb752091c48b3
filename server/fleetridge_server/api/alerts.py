"""`/alerts` and `/marks`: what needs attention, and what people decided of it."""

from datetime import datetime, timezone
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from fleetridge.device_names import folded_identity
from fleetridge.report.field_types import UtcTime
from fleetridge.strict_json import printable_problem
from fleetridge_server.auth.permissions import Caller, require_place
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.gpu_state import MarkKind
from fleetridge_server.fleet.find import is_expected, is_storable, names_of_devices
from fleetridge_server.fleet.marks import NewMark, add_mark, end_mark, mark_page
from fleetridge_server.http.answers import answered, documented
from fleetridge_server.http.authentication import CurrentCaller
from fleetridge_server.http.parameters import (
    NO_DEVICE,
    ListQuery,
    OpenDatabase,
    Position,
    list_id,
    moment,
    number_of,
    page,
    position_after,
    the_device,
)
from fleetridge_server.problems import FieldError, Problem, ProblemError, faulty
from fleetridge_server.responses.alert import AlertList, MarkList, MarkShown, alert_shown, mark_shown
from fleetridge_server.text import fleet as fleet_text
from fleetridge_server.verdicts.alerts import AlertKind, alert_page

_alerts, _marks = APIRouter(tags=["alerts"]), APIRouter(tags=["marks"])

_MARKS_PATH = "/marks"

_LONGEST_NAME = 300
_LONGEST_REASON = 1000

# Ids are 64-bit rows on both databases.
_LARGEST_ID = 2**63 - 1


def _printable(words: str) -> str:
    problem = printable_problem(words)
    if problem is not None:
        raise ValueError(problem)
    return words


_Name = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(_printable)]
_ReasonText = Annotated[str, Field(min_length=1, max_length=_LONGEST_REASON), AfterValidator(_printable)]


class MarkRequest(BaseModel):
    """
    A decision about accusations; its scope is what fits all of `gpu_id`, `cluster`, `node` and `rack` that are given.

    `false_positive`: nothing is wrong. `accepted`: wrong on purpose, best with the `loss` that is accepted (as a
    fraction) and an end. `retired`: gone for good, so that nobody misses it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: MarkKind
    reason: _ReasonText
    author: _Name
    gpu_id: _Name | None = None
    cluster: _Name | None = None
    node: _Name | None = None
    rack: _Name | None = None
    loss: Annotated[float | None, Field(gt=0, lt=1)] = None
    until: UtcTime | None = None


class MarksQuery(ListQuery):
    """Parameters of the list of marks."""

    state: Annotated[
        Literal["holds", "all"], Field(description="`holds` for those in force, `all` for ended ones too.")
    ] = "holds"
    cluster: Annotated[
        Literal["simulated"] | None, Field(description="`simulated` for marks on made-up gpus, else left out.")
    ] = None


@_marks.post(
    _MARKS_PATH,
    status_code=201,
    response_model=MarkShown,
    responses={
        422: {"model": Problem, "description": "Not a mark, or one that covers nothing that is known."},
        503: {"model": Problem, "description": "Nothing was stored; send the same again after Retry-After seconds."},
    },
)
async def post_mark(request: Request, database: OpenDatabase, caller: CurrentCaller, mark: MarkRequest) -> Response:
    """
    Keep a decision: a false positive, a deviation that is accepted, or a gpu that is retired.

    It changes no number. The next evaluation, which it brings about, excuses what it covers; a gpu that becomes clearly
    worse than what was accepted is accused again.
    """
    require_place(caller, mark.cluster, mark.node)
    kept = await anyio.to_thread.run_sync(keep_mark, database, mark, limiter=request.app.state.writers)
    headers = {"Location": f"/marks/{kept.id}"}
    return JSONResponse(kept.model_dump(mode="json"), status_code=201, headers=headers)


@_marks.get(_MARKS_PATH, response_model=MarkList, responses=documented())
def get_marks(request: Request, database: OpenDatabase, query: Annotated[MarksQuery, Query()]) -> Response:
    """Decisions of people, the newest first: those in force, or all."""
    return answered(request, read_marks(database, query), fleet_text.mark_list)


def read_marks(database: Database, query: MarksQuery) -> MarkList:
    """The answer. Raises ProblemError: 422, the position is of another list."""
    this_list = list_id(_MARKS_PATH, query)
    position = position_after(query.after, this_list)
    as_of = moment(None, position)
    with database.reading() as session:
        found = mark_page(
            session,
            simulated=query.cluster == SIMULATED,
            holding_at=as_of if query.state == "holds" else None,
            before_id=number_of(position),
            limit=query.limit + 1,
        )
    shown, following = page(
        found, query.limit, lambda mark: Position(of_list=this_list, as_of=as_of, name=str(mark.id))
    )
    marks = tuple(mark_shown(mark, as_of) for mark in shown)
    return MarkList(as_of=as_of, marks=marks, next=following)


@_marks.delete(
    "/marks/{mark_id}",
    response_model=MarkShown,
    responses={
        404: {"model": Problem, "description": "No mark has this id."},
        422: {"model": Problem, "description": "Not an id."},
        503: {"model": Problem, "description": "Nothing was changed; send the same again after Retry-After seconds."},
    },
)
async def delete_mark(request: Request, database: OpenDatabase, caller: CurrentCaller, mark_id: int) -> Response:
    """End a mark now. It stays listed, so that the past can be explained; ending it again changes nothing."""
    ended = await anyio.to_thread.run_sync(stop_mark, database, caller, mark_id, limiter=request.app.state.writers)
    return JSONResponse(ended.model_dump(mode="json"))


def keep_mark(database: Database, mark: MarkRequest) -> MarkShown:
    """Keep a decision; its caller may decide about the place. Raises ProblemError: 422, it would cover nothing."""
    with database.writing() as session:
        return keep_mark_in(session, mark, datetime.now(timezone.utc))


def keep_mark_in(session: Session, mark: MarkRequest, now: datetime) -> MarkShown:
    """The same as part of a transaction."""
    _require_sense(session, mark, now)
    gpu_id = None if mark.gpu_id is None else folded_identity(mark.gpu_id)
    new = NewMark(**mark.model_dump(exclude={"gpu_id"}), gpu=gpu_id, simulated=mark.cluster == SIMULATED)
    return mark_shown(add_mark(session, new, now), now)


def stop_mark(database: Database, caller: Caller, mark_id: int) -> MarkShown:
    """
    End a mark now.

    Raises:
        ProblemError: 404, there is none; 403, it is about a place that is not the caller's.
    """
    now = datetime.now(timezone.utc)
    with database.writing() as session:
        mark = end_mark(session, mark_id, now) if 0 < mark_id <= _LARGEST_ID else None
        if mark is None:
            detail = "no mark has this id; GET /marks?state=all lists them"
            raise ProblemError(404, "unknown_mark", "There is no such mark", detail)
        require_place(caller, mark.cluster, mark.node)  # what is raised here takes the end back
        return mark_shown(mark, now)


def _require_sense(session: Session, mark: MarkRequest, now: datetime) -> None:
    """Make sure that a mark covers something, and for some time. Raises ProblemError: 422, with the remedy."""
    if mark.cluster is None and (mark.node is not None or mark.rack is not None):
        raise _senseless("cluster", "two clusters may have nodes and racks of one name: name the cluster as well")
    if mark.gpu_id is None and mark.cluster is None:
        raise _senseless("gpu_id", "a mark needs a scope: name a gpu, or a cluster with or without its node or rack")
    if mark.until is not None and mark.until <= now:
        raise _senseless("until", "this is over already; give a later time, or none for ever")
    if mark.kind == "retired" and mark.loss is not None:
        raise _senseless("loss", "what is retired loses nothing; leave it out, or mark it as accepted")
    if not is_expected(session, gpu_id=mark.gpu_id, cluster=mark.cluster, node=mark.node, rack=mark.rack):
        raise _senseless(
            "gpu_id" if mark.gpu_id is not None else "cluster",
            "nothing that ever reported or is expected fits this; names are spelled exactly, GET /nodes lists them "
            "(and made-up gpus need cluster simulated)",
        )


def _senseless(field: str, problem: str) -> ProblemError:
    fault = FieldError(field=f"body.{field}", problem=problem)
    return faulty("invalid_mark", "This mark would cover nothing", [fault])


_ALERTS_PATH = "/alerts"


class AlertsQuery(ListQuery):
    """Parameters of the list of alerts."""

    state: Annotated[Literal["open", "resolved"] | None, Field(description="Only these; both by default.")] = None
    kind: Annotated[AlertKind | None, Field(description="Only of this kind.")] = None
    device: Annotated[str | None, Field(description="Only of this device, by any of its names.")] = None
    cluster: Annotated[
        str | None, Field(description="Only of this cluster; `simulated` for those of made-up gpus, else left out.")
    ] = None


@_alerts.get(_ALERTS_PATH, response_model=AlertList, responses=documented({404: NO_DEVICE}))
def get_alerts(request: Request, database: OpenDatabase, query: Annotated[AlertsQuery, Query()]) -> Response:
    """
    What evaluations found wrong, the newest first: opened when it is first found, resolved when it no longer is.

    A node or a rack that is slow as a whole is one alert. Suspicions and gaps in the measurements open none.
    """
    return answered(request, read_alerts(database, query), fleet_text.alert_list)


def read_alerts(database: Database, query: AlertsQuery) -> AlertList:
    """The answer. Raises ProblemError: 404, there is no such device; 422, the position is of another list."""
    this_list = list_id(_ALERTS_PATH, query)
    position = position_after(query.after, this_list)
    as_of = moment(None, position)
    with database.reading() as session:
        found = alert_page(
            session,
            simulated=query.cluster == SIMULATED,
            is_open=None if query.state is None else query.state == "open",
            kind=query.kind,
            device_id=None if query.device is None else the_device(session, query.device).id,
            cluster=_cluster(query.cluster),
            before_id=number_of(position),
            limit=query.limit + 1,
        )
        shown, following = page(
            found, query.limit, lambda alert: Position(of_list=this_list, as_of=as_of, name=str(alert.id))
        )
        devices = names_of_devices(session, {alert.device_id for alert in shown})
    alerts = tuple(alert_shown(alert, devices[alert.device_id]) for alert in shown)
    return AlertList(as_of=as_of, alerts=alerts, next=following)


def _cluster(asked: str | None) -> str | None:
    """Cluster to filter by; "", which none is called, for one that no database can hold."""
    if asked in (None, SIMULATED):
        return None
    return asked if is_storable(asked) else ""


router = APIRouter()
router.include_router(_alerts)
router.include_router(_marks)
