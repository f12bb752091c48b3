"""The page of alerts, and the forms that mark gpus."""

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, get_args

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from fleetridge_server.api.alerts import (
    AlertsQuery,
    MarkRequest,
    MarksQuery,
    decided_by,
    keep_mark_in,
    read_alerts,
    read_marks,
    stop_mark,
)
from fleetridge_server.auth.permissions import Caller
from fleetridge_server.db.database import Database
from fleetridge_server.db.verdict_tables import StoredMark
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.fleet.marks import mark_page
from fleetridge_server.http.authentication import CurrentCaller
from fleetridge_server.http.parameters import OpenDatabase
from fleetridge_server.problems import FieldError, faulty, field_errors
from fleetridge_server.responses.alert import AlertList, AlertShown, MarkList, MarkShown
from fleetridge_server.verdicts.alert_causes import SILENCED, AlertKind
from fleetridge_server.verdicts.alerts import AlertState
from fleetridge_server.web.forms import form_of, kept, local, query_of, visitor_of, written
from fleetridge_server.web.rendering import Frame, Links, html
from fleetridge_server.web.words import Filters, choices, state_word

router = APIRouter(include_in_schema=False)

_PER_CENT = 100

# The same form comes again within seconds; a mark that is older than so many others is no slip.
_NEWEST_MARKS = 100


@router.post("/ui/marks")
async def post_mark_form(request: Request, database: OpenDatabase, caller: CurrentCaller) -> Response:
    """Keep a decision, and go back to the page that it was made on."""
    fields = await form_of(request)
    mark = mark_of(fields, caller)
    await anyio.to_thread.run_sync(_keep_once, database, caller, mark, limiter=request.app.state.writers)
    return RedirectResponse(local(fields.get("back")), 303)


@router.post("/ui/marks/{mark_id}/end")
async def post_end_form(request: Request, database: OpenDatabase, caller: CurrentCaller, mark_id: int) -> Response:
    """End a mark, and go back."""
    fields = await form_of(request)
    await anyio.to_thread.run_sync(stop_mark, database, caller, mark_id, limiter=request.app.state.writers)
    return RedirectResponse(local(fields.get("back")), 303)


def mark_of(fields: dict[str, str], caller: Caller) -> MarkRequest:
    """
    Decision from the fields of the form: about an alert, or about a gpu, its node or its driver, as `scope` says.

    Who may decide about one place only decides about it there.

    Raises:
        ProblemError: 422, with the fields that are wrong.
    """
    sent: dict[str, Any] = {
        **{name: fields[name] for name in ("kind", "reason", "author") if name in fields},
        **({"alert_id": fields["alert_id"]} if "alert_id" in fields else _scope_of(fields, caller)),
    }
    try:
        if "loss_percent" in fields:
            sent["loss"] = float(fields["loss_percent"].replace(",", ".")) / _PER_CENT
        if "until" in fields:
            sent["until"] = _end_of(fields["until"])
        return MarkRequest.model_validate(sent)
    except ValidationError as error:
        faults = field_errors(error.errors())
    except ValueError:
        problem = "write the loss in per cent, such as 8, and the end as a date, such as 2027-01-31"
        faults = [FieldError(field="loss_percent, until", problem=problem)]
    raise faulty("invalid_mark", "This is no mark", faults)


def _scope_of(fields: dict[str, str], caller: Caller) -> dict[str, str | None]:
    """What the form of a gpu is about: it, its node, or all gpus with its driver."""
    where = {"cluster": fields.get("cluster") or caller.cluster, "node": caller.node}
    if fields.get("scope") == "node":
        return {"cluster": fields.get("its_cluster"), "node": fields.get("its_node")}
    if fields.get("scope") == "driver":
        return {**where, "driver": fields.get("its_driver")}
    return {**where, "gpu_id": fields.get("gpu_id")}


def _keep_once(database: Database, caller: Caller, asked: MarkRequest) -> None:
    """Keep a decision; a form that is sent twice by mistake decides once."""
    now = datetime.now(timezone.utc)
    with database.writing() as session:
        mark = decided_by(session, caller, asked)
        simulated = mark.cluster == SIMULATED
        newest = mark_page(session, simulated=simulated, holding_at=now, before_id=None, limit=_NEWEST_MARKS)
        if not any(_is_same(kept, mark) for kept in newest):
            keep_mark_in(session, mark, now)


def _is_same(kept: StoredMark, mark: MarkRequest) -> bool:
    scope = (kept.gpu, kept.cluster, kept.node, kept.rack, kept.driver)
    is_there = scope == (mark.gpu_id, mark.cluster, mark.node, mark.rack, mark.driver)
    decided = (kept.kind, kept.loss, kept.until) == (mark.kind, mark.loss, mark.until)
    return is_there and decided and (kept.reason, kept.author) == (mark.reason, mark.author)


def _end_of(day: str) -> datetime:
    """End of a day in UTC."""
    return datetime.strptime(day, "%Y-%m-%d").replace(hour=23, minute=59, second=59, tzinfo=timezone.utc)


_MOST_MARKS = 200


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An alert, where its subject is shown, what it would be called were it not silenced, and what to decide about."""

    alert: AlertShown
    href: str | None
    said: str
    scope: str


@dataclass(frozen=True, slots=True)
class MarkLine:
    """A mark, what it covers in words, and where that is shown."""

    mark: MarkShown
    covers: str
    href: str | None


@dataclass(frozen=True, slots=True)
class AlertsPage:
    """What the page shows; marks are those in force."""

    answer: AlertList
    lines: tuple[AlertLine, ...]
    marks: MarkList
    mark_lines: tuple[MarkLine, ...]
    filters: Filters
    keeps: tuple[tuple[str, str], ...]
    is_filtered: bool
    next_href: str | None
    first_href: str | None


@router.get("/ui/alerts")
def get_alerts_page(request: Request, database: OpenDatabase) -> Response:
    """Alerts, open ones first, with the marks that people made."""
    query = query_of(request, AlertsQuery)
    links = Links(simulated=query.cluster == SIMULATED)
    answer = read_alerts(database, query)
    marks = read_marks(database, MarksQuery(cluster=SIMULATED if links.simulated else None, limit=_MOST_MARKS))
    given = written(query)
    shown = alerts_page(answer, marks, query, links, given)
    api = links.api("alerts", **given)
    now = datetime.now(timezone.utc)
    return html("alerts.html", Frame("Alerts", links, now, api, visitor_of(request), "alerts"), shown)


def alerts_page(
    answer: AlertList, marks: MarkList, query: AlertsQuery, links: Links, given: dict[str, str | int]
) -> AlertsPage:
    """The page; `given` are its parameters as they are written in an address."""
    others = {name: value for name, value in given.items() if name != "after"}
    return AlertsPage(
        answer=answer,
        lines=tuple(_line(alert, links) for alert in answer.alerts),
        marks=marks,
        mark_lines=tuple(
            MarkLine(mark, _covers(mark), _href(links, mark.gpu_id, mark.cluster, mark.node)) for mark in marks.marks
        ),
        filters={
            "state": choices(get_args(AlertState), query.state),
            "kind": choices(get_args(AlertKind), query.kind, word=state_word),
        },
        keeps=kept(query, "state", "kind"),
        is_filtered=any(value is not None for value in (query.state, query.kind, query.device)),
        next_href=None if answer.next is None else links.alerts(**others, after=answer.next),
        first_href=links.alerts(**others) if query.after is not None else None,
    )


def _line(alert: AlertShown, links: Links) -> AlertLine:
    href = _href(links, alert.gpu_id, alert.cluster, alert.node)
    said = alert.details.get("said") if alert.state == SILENCED else None
    word = {"gpu": "gpu", "node": "node", "rack": "rack", "missing": "gpu or node"}.get(alert.kind, "")
    return AlertLine(alert, href, str(said or ""), "" if alert.resolved_at is not None else word)


def _href(links: Links, gpu_id: str | None, cluster: str | None, node: str | None) -> str | None:
    if gpu_id is not None:
        return links.gpu(gpu_id)
    return None if cluster is None or node is None else links.node(cluster, node)


def _covers(mark: MarkShown) -> str:
    names = (mark.gpu_id, mark.cluster, mark.rack, mark.node, mark.driver)
    places = zip(("gpu", "cluster", "rack", "node", "driver"), names, strict=True)
    return ", ".join(f"{kind} {name}" for kind, name in places if name is not None)
