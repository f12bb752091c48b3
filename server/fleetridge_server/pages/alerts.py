"""The page of alerts and of the marks by which people decide about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import get_args

from fastapi import APIRouter, Request, Response

from fleetridge_server.answer.alert_schemas import AlertList, AlertShown, MarkList, MarkShown
from fleetridge_server.api.alerts import AlertsQuery, read_alerts
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.marks import MarksQuery, read_marks
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.pages.asking import kept, query_of, written
from fleetridge_server.pages.forms import visitor_of
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.rendering import Frame, html
from fleetridge_server.pages.words import Choice, choices, state_word
from fleetridge_server.store.alerts import AlertKind

router = APIRouter(include_in_schema=False)

_MOST_MARKS = 200


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An alert, and where its subject is shown."""

    alert: AlertShown
    href: str | None


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
    filters: tuple[tuple[str, str, tuple[Choice, ...]], ...]
    keeps: tuple[tuple[str, str], ...]
    is_filtered: bool
    next_href: str | None
    first_href: str | None
    all_href: str
    marks_api: str


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
        lines=tuple(AlertLine(alert, _href(links, alert.gpu_id, alert.cluster, alert.node)) for alert in answer.alerts),
        marks=marks,
        mark_lines=tuple(
            MarkLine(mark, _covers(mark), _href(links, mark.gpu_id, mark.cluster, mark.node)) for mark in marks.marks
        ),
        filters=(
            ("state", "state", choices(("open", "resolved"), query.state)),
            ("kind", "kind", choices(get_args(AlertKind), query.kind, word=state_word)),
        ),
        keeps=kept(query, "state", "kind"),
        is_filtered=any(value is not None for value in (query.state, query.kind, query.device)),
        next_href=None if answer.next is None else links.alerts(**others, after=answer.next),
        first_href=links.alerts(**others) if query.after is not None else None,
        all_href=links.alerts(),
        marks_api=links.api("marks"),
    )


def _href(links: Links, gpu_id: str | None, cluster: str | None, node: str | None) -> str | None:
    if gpu_id is not None:
        return links.gpu(gpu_id)
    return None if cluster is None or node is None else links.node(cluster, node)


def _covers(mark: MarkShown) -> str:
    places = (("gpu", mark.gpu_id), ("cluster", mark.cluster), ("rack", mark.rack), ("node", mark.node))
    return ", ".join(f"{kind} {name}" for kind, name in places if name is not None)
