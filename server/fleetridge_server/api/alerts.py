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
from fleetridge_server.verdicts.alert_causes import AlertKind
from fleetridge_server.verdicts.alerts import AlertState, alert_page, alert_with

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
    A decision about accusations; its scope is what fits all of `gpu_id`, `cluster`, `node`, `rack` and `driver` (of the
    newest report) that are given, or that of an alert (`alert_id`).

    `known`: bad, and being repaired until its end. `accepted`: wrong on purpose, best with the `loss` that is accepted
    (as a fraction) and an end. `false_positive`: nothing is wrong. `retired`: gone for good, so that nobody misses it.
    `author` is the name of the token where the server asks for one, and has to be given elsewhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: MarkKind
    reason: _ReasonText
    author: _Name | None = None
    alert_id: Annotated[int | None, Field(gt=0, le=_LARGEST_ID)] = None
    gpu_id: _Name | None = None
    cluster: _Name | None = None
    node: _Name | None = None
    rack: _Name | None = None
    driver: _Name | None = None
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
        404: {"model": Problem, "description": "No alert has this id."},
        422: {"model": Problem, "description": "Not a mark, or one that covers nothing that is known."},
        503: {"model": Problem, "description": "Nothing was stored; send the same again after Retry-After seconds."},
    },
)
async def post_mark(request: Request, database: OpenDatabase, caller: CurrentCaller, mark: MarkRequest) -> Response:
    """
    Keep a decision: a repair, a deviation that is accepted, a false positive, or a gpu that is retired.

    It changes no number. By the next evaluation, which it brings about, slow gpus that it covers are `known`, and the
    alerts of those that are being repaired are silenced until its end; a gpu that becomes clearly worse than what was
    accepted is accused again.
    """
    kept = await anyio.to_thread.run_sync(keep_mark, database, caller, mark, limiter=request.app.state.writers)
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


def keep_mark(database: Database, caller: Caller, mark: MarkRequest) -> MarkShown:
    """
    Keep a decision.

    Raises:
        ProblemError: 403, the place is not the caller's; 404, there is no such alert; 422, it would cover nothing.
    """
    with database.writing() as session:
        return keep_mark_in(session, decided_by(session, caller, mark), datetime.now(timezone.utc))


def decided_by(session: Session, caller: Caller, mark: MarkRequest) -> MarkRequest:
    """
    A decision with its author, and with the scope of its alert in that one's place.

    Raises:
        ProblemError: 403, the place is not the caller's; 404, there is no such alert; 422, nobody decided it, or the
            alert is about no gpu, node or rack.
    """
    scope = {} if mark.alert_id is None else _scope_of_alert(session, caller, mark)
    author = caller.name or mark.author
    if author is None:
        raise _senseless("author", "this server knows no names: say who decides")
    decided = mark.model_copy(update={**scope, "alert_id": None, "author": author})
    require_place(caller, decided.cluster, decided.node)
    return decided


def _scope_of_alert(session: Session, caller: Caller, mark: MarkRequest) -> dict[str, str | None]:
    if any(own is not None for own in (mark.gpu_id, mark.cluster, mark.node, mark.rack, mark.driver)):
        raise _senseless("alert_id", "an alert has a scope of its own; leave out this or the scope")
    alert = None if mark.alert_id is None else alert_with(session, mark.alert_id)
    if alert is None:
        detail = "no alert has this id; GET /alerts lists them"
        raise ProblemError(404, "unknown_alert", "There is no such alert", detail)
    require_place(caller, alert.cluster, alert.node)
    gpu_ids = [alert.gpu] if alert.kind == "gpu" else list(alert.details.get("gpu_ids", ()))
    is_one_gpu = alert.kind == "gpu" or (alert.kind == "missing" and len(gpu_ids) == 1 == alert.details.get("gpus"))
    if is_one_gpu and not alert.details.get("unnamed"):
        # Where it is now, or wherever it will be; made-up gpus and bound callers have one place.
        return {
            "gpu_id": gpu_ids[0],
            "cluster": SIMULATED if alert.simulated else caller.cluster,
            "node": caller.node,
        }
    if alert.cluster is None or (alert.node is None and alert.rack is None):
        raise _senseless("alert_id", "this alert is about a device as a whole; name what the mark is to cover")
    if mark.kind == "retired" and alert.kind == "missing" and not alert.details.get("never_reported"):
        raise _senseless("alert_id", "only part of the node is missing: name each gpu that is gone for good")
    return {"cluster": alert.cluster, "node": alert.node, "rack": alert.rack if alert.kind == "rack" else None}


def keep_mark_in(session: Session, mark: MarkRequest, now: datetime) -> MarkShown:
    """Keep a decision of a known author (`decided_by`). Raises ProblemError: 422, it would cover nothing."""
    _require_sense(session, mark, now)
    gpu_id = None if mark.gpu_id is None else folded_identity(mark.gpu_id)
    given = mark.model_dump(exclude={"gpu_id", "alert_id"})
    return mark_shown(add_mark(session, NewMark(**given, gpu=gpu_id, simulated=mark.cluster == SIMULATED), now), now)


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
    if mark.gpu_id is None and mark.cluster is None and mark.driver is None:
        needed = "a mark needs a scope: name a gpu, a driver, an alert, or a cluster with or without its node or rack"
        raise _senseless("gpu_id", needed)
    if mark.kind == "known" and mark.until is None:
        raise _senseless("until", "what is known is being repaired until some time: give that")
    if mark.kind == "retired" and mark.driver is not None:
        raise _senseless("driver", "a driver is not retired, its gpus are: name them, or their node")
    if mark.until is not None and mark.until <= now:
        raise _senseless("until", "this is over already; give a later time, or none for ever")
    if mark.kind == "retired" and mark.loss is not None:
        raise _senseless("loss", "what is retired loses nothing; leave it out, or mark it as accepted")
    scope = mark.model_dump(include={"gpu_id", "cluster", "node", "rack", "driver"})
    if not is_expected(session, **scope):
        raise _senseless(
            next((name for name in ("gpu_id", "driver") if scope[name] is not None), "cluster"),
            "nothing that ever reported or is expected fits this; names are spelled exactly, GET /nodes lists them "
            "(and made-up gpus need cluster simulated)",
        )


def _senseless(field: str, problem: str) -> ProblemError:
    fault = FieldError(field=f"body.{field}", problem=problem)
    return faulty("invalid_mark", "This mark would cover nothing", [fault])


_ALERTS_PATH = "/alerts"


class AlertsQuery(ListQuery):
    """Parameters of the list of alerts."""

    state: Annotated[
        AlertState | None,
        Field(description="Only these; `silenced` ones are open, and nobody is told of them. All by default."),
    ] = None
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
            state=query.state,
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
