"""The pages of nodes: the list, and one."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from fleetridge.terminal_text import visible
from fleetridge_server.api.nodes import NodeQuery, NodesFilter, read_node
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.gpu_state import ACCUSING, STATES
from fleetridge_server.fleet.nodes import fleet_nodes, node_names
from fleetridge_server.http.parameters import (
    OpenDatabase,
    Position,
    list_id,
    moment,
    page,
    position_after,
    states_of,
)
from fleetridge_server.problems import ProblemError
from fleetridge_server.responses.node import NodeAnswer, NodeGpu, NodeRow, trouble
from fleetridge_server.responses.node_list import absences_by_node, folded, health_by_node, is_host, node_row
from fleetridge_server.responses.verdict import VerdictShown
from fleetridge_server.text.fleet import LEAST_COST, straggler_words
from fleetridge_server.verdicts.stored import current_evaluations
from fleetridge_server.web.forms import kept, query_of, visitor_of, written
from fleetridge_server.web.rendering import Frame, Links, address, html
from fleetridge_server.web.words import Filters, StateShown, Tile, capital, choices, loss_words, state_word, tiles

router = APIRouter(include_in_schema=False)

# More names than this fill a screen; the route of the API has up to 10,000.
_MOST_HOSTS = 2000

# Of nodes of which nothing is said, behind all others.
_UNSPOKEN = len(STATES)


class _NodeRank(NamedTuple):
    """Key by which nodes stand worst first."""

    severity: int
    gain: float
    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class NodesRead:
    """What the page is made from: rows that the filters take, worst first, and what there is to choose from."""

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
    What the page shows: nodes that the filters take, on all pages of the list.

    `hostlist` is empty where `hostlist_note` says why there is none; `left_out` are names that no host could have.
    """

    lines: tuple[NodeLine, ...]
    nodes: int
    is_filtered: bool
    filters: Filters
    keeps: tuple[tuple[str, str], ...]
    hostlist: str
    hostlist_note: str
    hostlist_href: str
    left_out: int
    next_href: str | None
    first_href: str | None


@router.get("/ui/nodes")
def get_nodes_page(request: Request, database: OpenDatabase) -> Response:
    """Nodes, worst first, a page at a time."""
    query = query_of(request, NodesFilter)
    links = Links(simulated=query.cluster == SIMULATED)
    read = read_nodes(database, query)
    api = links.api("nodes", **{name: value for name, value in written(query).items() if name != "after"})
    frame = Frame("Nodes", links, read.as_of, api, visitor_of(request), "nodes")
    return html("nodes.html", frame, nodes_page(read, query, links))


def read_nodes(database: Database, query: NodesFilter) -> NodesRead:
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


def nodes_page(read: NodesRead, query: NodesFilter, links: Links) -> NodesPage:
    """The page. Raises ProblemError: 422, the position is of another list."""
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
    )


def _rows(session: Session, names: Sequence[NodeName], *, simulated: bool) -> list[NodeRow]:
    evaluations = current_evaluations(session, simulated=simulated)
    absences = absences_by_node(absence for own in evaluations for absence in own.body.absences)
    health = health_by_node(one for own in evaluations for one in own.body.health)
    return [
        node_row(node, absences.get(node.name, ()), health.get(node.name, ())) for node in fleet_nodes(session, names)
    ]


def _rank(row: NodeRow) -> _NodeRank:
    worst = row.worst
    if worst is not None:
        return _NodeRank(*trouble(worst.state, worst.last_state, worst.loss), row.cluster, row.name)
    # Whoever should be there and never was is gone as much as a gpu that is missing.
    severity = trouble("missing", None, None)[0] if row.never_reported else _UNSPOKEN
    return _NodeRank(severity, 0.0, row.cluster, row.name)


def _rank_at(position: Position) -> _NodeRank:
    severity = _UNSPOKEN if position.severity is None else position.severity
    return _NodeRank(severity, position.loss or 0.0, position.cluster or "", position.name)


def _position(row: NodeRow, of_list: str, as_of: datetime) -> Position:
    rank = _rank(row)
    return Position(
        of_list=of_list, as_of=as_of, name=rank.name, cluster=rank.cluster, severity=rank.severity, loss=rank.gain
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


def _filters(read: NodesRead, query: NodesFilter, links: Links) -> Filters:
    return {
        "cluster": choices(read.clusters, query.cluster, any_word=None if links.simulated else "any"),
        "rack": choices(read.racks, query.rack),
        "verdict": choices(STATES, query.verdict, word=state_word),
    }


def _hostlist(rows: Iterable[NodeRow]) -> tuple[str, str]:
    """The nodes as a scheduler takes them, or why there is no such list."""
    found = list(rows)
    if len({row.cluster for row in found}) > 1:
        return "", "these nodes are in several clusters, whose schedulers may call other nodes so: choose a cluster"
    if len(found) > _MOST_HOSTS:
        return "", f"these are more than {_MOST_HOSTS} nodes: choose a rack or a verdict"
    return folded(row.name for row in found), ""


@dataclass(frozen=True, slots=True)
class NodeGpuLine:
    """A gpu of the node."""

    gpu: NodeGpu
    href: str
    shown: StateShown | None
    loss: str
    says: str
    next_step: str


@dataclass(frozen=True, slots=True)
class NodePage:
    """
    What the page shows; `missing` are ids with their pages (None: nobody ever saw it).

    `silent` are gpus of the newest complete roster that never reported.
    """

    answer: NodeAnswer
    tiles: tuple[Tile, ...]
    lines: tuple[NodeGpuLine, ...]
    missing: tuple[tuple[str, str | None], ...]
    silent: tuple[str, ...]
    straggler: str
    racks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SeveralNodes:
    """Nodes of one name in several clusters, of which one has to be chosen."""

    name: str
    choices: tuple[tuple[str, str], ...]


@router.get("/ui/nodes/{name:path}")
def get_node_page(request: Request, database: OpenDatabase, name: str) -> Response:
    """The page, or a choice where nodes of several clusters have the name."""
    query = query_of(request, NodeQuery)
    now = datetime.now(timezone.utc)
    try:
        answer = read_node(database, name, query)
    except ProblemError as problem:
        if problem.problem.code != "ambiguous_node":
            raise
        clusters: list[str] = problem.members["clusters"]
        several = SeveralNodes(name, tuple((cluster, Links().node(cluster, name)) for cluster in clusters))
        frame = Frame(name, Links(), now, address(f"/nodes/{name}"), visitor_of(request))
        return html("several_nodes.html", frame, several, status=problem.problem.status)
    links = Links(simulated=answer.cluster == SIMULATED)
    api = Links().api("nodes", name, cluster=answer.cluster)
    return html("node.html", Frame(answer.name, links, now, api, visitor_of(request)), node_page(answer, links))


def node_page(answer: NodeAnswer, links: Links) -> NodePage:
    """One node: its gpus, those that are missing, what the slowest costs."""
    worst = max(answer.stragglers, key=lambda cost: cost.loss, default=None)
    known = {gpu.gpu_id for gpu in answer.gpus}
    roster = () if answer.roster is None else answer.roster.gpus
    return NodePage(
        answer=answer,
        tiles=tiles(answer.verdicts, lambda _: "#gpus"),
        lines=tuple(_gpu_line(gpu, links) for gpu in answer.gpus),
        missing=tuple((gpu_id, links.gpu(gpu_id) if gpu_id in known else None) for gpu_id in answer.missing),
        silent=tuple(
            entry.gpu_id or entry.pci_bus_id or f"index {entry.index}" for entry in roster if not entry.reported
        ),
        straggler="" if worst is None or worst.loss < LEAST_COST else capital(straggler_words(worst)),
        racks=tuple(sorted(answer.labels.items())),
    )


def _gpu_line(gpu: NodeGpu, links: Links) -> NodeGpuLine:
    verdict = gpu.verdict
    first = verdict.reasons[0] if verdict is not None and verdict.reasons else None
    return NodeGpuLine(
        gpu=gpu,
        href=links.gpu(gpu.gpu_id),
        shown=None if verdict is None else StateShown(verdict.state, verdict.last_state),
        loss=_loss(verdict),
        says=first.text if first is not None else "" if verdict is None or verdict.state == "ok" else verdict.text,
        next_step="" if verdict is None else verdict.next_step or "",
    )


def _loss(verdict: VerdictShown | None) -> str:
    if verdict is None or verdict.loss is None:
        return loss_words(None)
    # A gpu whose state is about missing measurements has a loss that nobody accuses it of.
    is_about_rates = verdict.state in ACCUSING or verdict.state == "ok"
    return loss_words(verdict.loss) if is_about_rates or verdict.last_state in ACCUSING else loss_words(None)
