"""The page of all nodes, worst first, and of those that a scheduler should leave out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from fleetridge.terminal_text import visible
from fleetridge_server.answer.fleet_nodes import absences_by_node, node_row, trouble
from fleetridge_server.answer.hostlist import folded, is_host
from fleetridge_server.answer.node_schemas import NodeRow
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.filters import VerdictFilter, states_of
from fleetridge_server.api.paging import ListQuery, Position, list_id, moment, page, position_after
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.evaluation.read import current_evaluations
from fleetridge_server.pages.asking import kept, query_of, written
from fleetridge_server.pages.forms import visitor_of
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.rendering import Frame, html
from fleetridge_server.pages.words import Choice, StateShown, choices, loss_words, state_word
from fleetridge_server.store.database import Database
from fleetridge_server.store.fleet_nodes import fleet_nodes, node_names
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.state import ACCUSING, STATES

router = APIRouter(include_in_schema=False)

# More names than this fill a screen; the route of the API has up to 10,000.
_MOST_HOSTS = 2000

# Of nodes of which nothing is said, behind all others.
_UNSPOKEN = len(STATES)


class NodesPageQuery(ListQuery):
    """Parameters of the page; filters are those of the API's list."""

    cluster: Annotated[str | None, Field(description="Only this cluster; `simulated` for made-up nodes.")] = None
    rack: Annotated[str | None, Field(description="Only nodes with this label `rack`.")] = None
    verdict: VerdictFilter = None


class _Rank(NamedTuple):
    """Key by which nodes stand worst first."""

    severity: int
    gain: float
    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class NodesRead:
    """
    What the page is made from.

    Attributes:
        rows: that the filters take, worst first.
        clusters, racks: that there are to choose from.
    """

    as_of: datetime
    rows: tuple[NodeRow, ...]
    clusters: tuple[str, ...]
    racks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorstLine:
    """The worst gpu of a node: who it is, what is said of it, and what it loses."""

    label: str
    href: str | None
    shown: StateShown
    loss: str
    says: str


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of the list."""

    row: NodeRow
    href: str
    worst: WorstLine | None
    is_accused: bool
    verdicts: str


@dataclass(frozen=True, slots=True)
class NodesPage:
    """
    What the page shows.

    Attributes:
        nodes: that the filters take, on all pages of the list.
        hostlist: their names in the form of a scheduler; empty where `hostlist_note` says why there is none.
        left_out: names that no host could have.
    """

    lines: tuple[NodeLine, ...]
    nodes: int
    is_filtered: bool
    filters: tuple[tuple[str, str, tuple[Choice, ...]], ...]
    keeps: tuple[tuple[str, str], ...]
    hostlist: str
    hostlist_note: str
    hostlist_href: str
    left_out: int
    next_href: str | None
    first_href: str | None
    all_href: str


@router.get("/ui/nodes")
def get_nodes_page(request: Request, database: OpenDatabase) -> Response:
    """Nodes, worst first, a page at a time."""
    query = query_of(request, NodesPageQuery)
    links = Links(simulated=query.cluster == SIMULATED)
    read = read_nodes(database, query)
    api = links.api("nodes", **{name: value for name, value in written(query).items() if name != "after"})
    frame = Frame("Nodes", links, read.as_of, api, visitor_of(request), "nodes")
    return html("nodes.html", frame, nodes_page(read, query, links))


def read_nodes(database: Database, query: NodesPageQuery) -> NodesRead:
    """All nodes that the filters take, as they are now."""
    simulated = query.cluster == SIMULATED
    with database.reading() as session:
        everywhere = node_names(session, cluster=SIMULATED if simulated else None)
        names = node_names(session, cluster=query.cluster, states=states_of(query.verdict))
        rows = _rows(session, names, simulated=simulated)
    racks = {row.rack for row in rows if row.rack is not None}
    return NodesRead(
        as_of=moment(None),
        rows=tuple(sorted((row for row in rows if query.rack in (None, row.rack)), key=_rank)),
        clusters=tuple(sorted({name.cluster for name in everywhere})),
        racks=tuple(sorted(racks)),
    )


def nodes_page(read: NodesRead, query: NodesPageQuery, links: Links) -> NodesPage:
    """
    The page.

    Raises:
        ProblemError: 422, the position is of another list.
    """
    this_list = list_id("/ui/nodes", query)
    position = position_after(query.after, this_list)
    rows = read.rows if position is None else read.rows[bisect_right(read.rows, _rank_at(position), key=_rank) :]
    shown, following = page(rows, query.limit, lambda row: _position(row, this_list, read.as_of))
    given = {name: value for name, value in written(query).items() if name != "after"}
    filters = {name: value for name, value in given.items() if name != "limit"}
    hostlist, note = _hostlist(read.rows)
    return NodesPage(
        lines=tuple(_line(row, links) for row in shown),
        nodes=len(read.rows),
        is_filtered=any(value is not None for value in (query.rack, query.verdict))
        or query.cluster not in (None, SIMULATED),
        filters=_filters(read, query, links),
        keeps=kept(query, "cluster", "rack", "verdict"),
        hostlist=hostlist,
        hostlist_note=note,
        hostlist_href=links.api("nodes", **{**filters, "format": "hostlist"}),
        left_out=sum(not is_host(row.name) for row in read.rows),
        next_href=None if following is None else links.nodes(**given, after=following),
        first_href=links.nodes(**given) if query.after is not None else None,
        all_href=links.nodes(),
    )


def _rows(session: Session, names: Sequence[NodeName], *, simulated: bool) -> list[NodeRow]:
    told = current_evaluations(session, simulated=simulated)
    absences = absences_by_node(absence for own in told for absence in own.body.absences)
    return [node_row(node, absences.get(node.name, ())) for node in fleet_nodes(session, names)]


def _rank(row: NodeRow) -> _Rank:
    worst = row.worst
    if worst is not None:
        return _Rank(*trouble(worst.state, worst.last_state, worst.loss), row.cluster, row.name)
    # Whoever should be there and never was is gone as much as a gpu that is missing.
    severity = trouble("missing", None, None)[0] if row.never_reported else _UNSPOKEN
    return _Rank(severity, 0.0, row.cluster, row.name)


def _rank_at(position: Position) -> _Rank:
    severity = _UNSPOKEN if position.severity is None else position.severity
    return _Rank(severity, position.loss or 0.0, position.cluster or "", position.name)


def _position(row: NodeRow, of_list: str, as_of: datetime) -> Position:
    rank = _rank(row)
    return Position(
        of_list=of_list,
        as_of=as_of,
        name=rank.name,
        cluster=rank.cluster,
        severity=rank.severity,
        loss=rank.gain,
    )


def _line(row: NodeRow, links: Links) -> NodeLine:
    return NodeLine(
        row=row,
        href=links.node(row.cluster, row.name),
        worst=_worst(row, links),
        is_accused=row.worst is not None and row.worst.state in ACCUSING,
        verdicts=", ".join(f"{count} {state_word(state)}" for state, count in row.verdicts.items()),
    )


def _worst(row: NodeRow, links: Links) -> WorstLine | None:
    worst = row.worst
    if worst is None:
        return None
    is_slow = (worst.last_state or worst.state) in ACCUSING
    shown = StateShown(worst.state, worst.last_state)
    return WorstLine(
        label=visible(worst.gpu_id) if worst.index is None else f"gpu {worst.index}",
        # A gpu that the inventory alone knows has neither an index nor a page.
        href=None if worst.index is None else links.gpu(worst.gpu_id),
        shown=shown,
        loss=loss_words(worst.loss if is_slow else None),
        says=state_word(worst.reason) if worst.reason is not None else "" if worst.state == "ok" else shown.meaning,
    )


def _filters(read: NodesRead, query: NodesPageQuery, links: Links) -> tuple[tuple[str, str, tuple[Choice, ...]], ...]:
    return (
        ("cluster", "cluster", choices(read.clusters, query.cluster, any_word=None if links.simulated else "any")),
        ("rack", "rack", choices(read.racks, query.rack)),
        ("verdict", "verdict", choices(STATES, query.verdict, word=state_word)),
    )


def _hostlist(rows: Iterable[NodeRow]) -> tuple[str, str]:
    """The nodes as a scheduler takes them, or why there is no such list."""
    found = list(rows)
    if len({row.cluster for row in found}) > 1:
        return "", "these nodes are in several clusters, whose schedulers may call other nodes so: choose a cluster"
    if len(found) > _MOST_HOSTS:
        return "", f"these are more than {_MOST_HOSTS} nodes: choose a rack or a verdict"
    return folded(row.name for row in found), ""
