"""The page of one node: its gpus, what is missing, and what it reported about itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from fastapi import APIRouter, Request, Response

from fleetridge_server.answer.evaluated_schemas import VerdictShown
from fleetridge_server.answer.node_schemas import NodeAnswer, NodeGpu
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.nodes import NodeQuery, read_node
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.pages.asking import query_of
from fleetridge_server.pages.forms import visitor_of
from fleetridge_server.pages.links import Links, address
from fleetridge_server.pages.rendering import Frame, html
from fleetridge_server.pages.words import StateShown, Tile, capital, loss_words, tiles
from fleetridge_server.problems import ProblemError
from fleetridge_server.text.stragglers import LEAST_COST, straggler_words
from fleetridge_server.verdict.state import ACCUSING

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class NodeLine:
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
    What the page shows.

    Attributes:
        missing: ids with their pages; None for a gpu that nobody ever saw.
        silent: gpus of the newest complete roster that never reported, by what is known of them.
        straggler: what a job over the node loses, where it is worth a word.
    """

    answer: NodeAnswer
    tiles: tuple[Tile, ...]
    lines: tuple[NodeLine, ...]
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
        lines=tuple(_line(gpu, links) for gpu in answer.gpus),
        missing=tuple((gpu_id, links.gpu(gpu_id) if gpu_id in known else None) for gpu_id in answer.missing),
        silent=tuple(
            entry.gpu_id or entry.pci_bus_id or f"index {entry.index}" for entry in roster if not entry.reported
        ),
        straggler="" if worst is None or worst.loss < LEAST_COST else capital(straggler_words(worst)),
        racks=tuple(sorted(answer.labels.items())),
    )


def _line(gpu: NodeGpu, links: Links) -> NodeLine:
    verdict = gpu.verdict
    first = verdict.reasons[0] if verdict is not None and verdict.reasons else None
    return NodeLine(
        gpu=gpu,
        href=links.gpu(gpu.gpu_id),
        shown=None if verdict is None else StateShown(verdict.state, verdict.last_state),
        loss=_loss(verdict),
        says=first.text if first is not None else "" if verdict is None or verdict.state == "ok" else verdict.text,
        next_step="" if first is None else first.next_step,
    )


def _loss(verdict: VerdictShown | None) -> str:
    if verdict is None or verdict.loss is None:
        return loss_words(None)
    # A gpu whose state is about missing measurements has a loss that nobody accuses it of.
    is_about_rates = verdict.state in ACCUSING or verdict.state == "ok"
    return loss_words(verdict.loss) if is_about_rates or verdict.last_state in ACCUSING else loss_words(None)
