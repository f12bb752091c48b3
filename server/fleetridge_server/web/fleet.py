"""The page of the fleet, with its heat map."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request, Response

from fleetridge.terminal_text import visible
from fleetridge_server.api.fleet import FleetQuery, read_fleet
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED, Span
from fleetridge_server.fleet.locations import device_counts
from fleetridge_server.fleet.nodes import FleetNode, GpuVerdictRow, fleet_nodes, node_names
from fleetridge_server.http.parameters import OpenDatabase
from fleetridge_server.responses.fleet import TROUBLED, FleetAnswer
from fleetridge_server.responses.node import trouble
from fleetridge_server.text.fleet import MOST_PLACES, more_places, straggler_words
from fleetridge_server.verdicts.evaluation_shapes import SlowPlace
from fleetridge_server.web.charts.heatmap import heatmap_svg
from fleetridge_server.web.charts.heatmap_layout import HeatCell, HeatCluster, HeatMap, HeatNode, HeatRack
from fleetridge_server.web.charts.svg import inline_chart
from fleetridge_server.web.charts.symbols import DrawnGpu
from fleetridge_server.web.forms import kept, query_of, visitor_of
from fleetridge_server.web.rendering import Frame, Links, html, picture
from fleetridge_server.web.words import (
    Choice,
    StateShown,
    Tile,
    capital,
    choices,
    gpu_label,
    loss_words,
    state_word,
    tiles,
)

_TITLE = "Every gpu by its largest loss against its peers"


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A node of the map as a row of its table."""

    cluster: str
    rack: str
    node: str
    href: str
    gpus: int
    worst: StateShown | None
    loss: str


def heat_map(nodes: Sequence[FleetNode], links: Links) -> HeatMap:
    """The map: cluster, rack, node, gpu, each in order."""
    clusters: dict[str, dict[str | None, list[FleetNode]]] = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        clusters[node.name.cluster][_rack(node)].append(node)
    return HeatMap(
        _TITLE,
        tuple(
            HeatCluster(
                visible(cluster),
                tuple(
                    HeatRack(
                        None if rack is None else visible(rack),
                        tuple(_node(node, links) for node in sorted(racks[rack], key=lambda node: node.name)),
                    )
                    for rack in sorted(racks, key=lambda rack: (rack is None, rack or ""))
                ),
            )
            for cluster, racks in sorted(clusters.items())
        ),
    )


def heat_rows(nodes: Iterable[FleetNode], links: Links) -> tuple[HeatRow, ...]:
    """The same as a table, a row for each node."""
    return tuple(_row(node, links) for node in sorted(nodes, key=lambda node: node.name))


def _rack(node: FleetNode) -> str | None:
    return None if node.row is None else node.row.labels.get("rack")


def _node(node: FleetNode, links: Links) -> HeatNode:
    return HeatNode(
        visible(node.name.name),
        tuple(_cell(gpu, node.name.name, links) for gpu in sorted(node.gpus, key=_order)),
        links.node(*node.name),
    )


def _cell(gpu: GpuVerdictRow, node: str, links: Links) -> HeatCell:
    said = gpu.said
    # A gpu that is well is part of its node's link.
    has_page = gpu.is_known and said is not None and said.state != "ok"
    return HeatCell(
        DrawnGpu(
            label=gpu_label(node, gpu.index, gpu.gpu_id),
            state=None if said is None else said.state,
            href=links.gpu(gpu.gpu_id) if has_page else None,
            note="" if said is None or said.reason is None else state_word(said.reason),
        ),
        None if said is None or said.loss is None else -said.loss,
    )


def _order(gpu: GpuVerdictRow) -> tuple[bool, int, str]:
    return gpu.index is None, gpu.index or 0, gpu.gpu_id


def _row(node: FleetNode, links: Links) -> HeatRow:
    said = [gpu.said for gpu in node.gpus if gpu.said is not None]
    losses = [own.loss for own in said if own.loss is not None]
    worst = min(said, key=lambda own: trouble(own.state, own.last_state, own.loss), default=None)
    return HeatRow(
        cluster=node.name.cluster,
        rack=_rack(node) or "",
        node=node.name.name,
        href=links.node(*node.name),
        gpus=len(node.gpus),
        worst=None if worst is None else StateShown(worst.state, worst.last_state),
        loss=loss_words(max(losses, default=None)),
    )


router = APIRouter(include_in_schema=False)

# A table of more nodes is read by nobody; the API has them page by page.
_MOST_ROWS = 1000

# Of a larger fleet nobody finds a gpu in the map, which would take seconds and megabytes.
MOST_MAPPED = 1500


@dataclass(frozen=True, slots=True)
class MappedNodes:
    """Nodes of the map with their gpus: all that there are, or of `total` many those with a gpu in trouble first."""

    nodes: Sequence[FleetNode] = ()
    total: int = 0


@dataclass(frozen=True, slots=True)
class FleetPage:
    """
    What the page shows.

    Attributes:
        is_good: None where nothing can be said yet.
        tiles: gpus by state.
        devices: tiles of each device of the answer.
        slow: places that are slow as a whole, each once, with its kind and in its worst roof; more_slow: how many are
            left out, in words.
        heat: markup of the map; empty where an earlier time was asked for.
        nodes: all that there are; rows are left out where they are too many.
        mapped: how many of them the map has.
        simulated_href: a made-up fleet to look at, where there is one and nothing else.
        clusters: to choose from; () where there is no choice.
        unknown_cluster: that was asked for and has nothing, while others have.
    """

    answer: FleetAnswer
    sentence: str
    is_good: bool | None
    tiles: tuple[Tile, ...]
    devices: tuple[tuple[Tile, ...], ...]
    slow: tuple[tuple[str, SlowPlace], ...]
    more_slow: tuple[str, ...]
    stragglers: tuple[str, ...]
    heat: str
    heat_href: str
    heat_rows: tuple[HeatRow, ...]
    nodes: int
    mapped: int
    nodes_href: str
    simulated_href: str | None
    clusters: tuple[Choice, ...]
    keeps: tuple[tuple[str, str], ...]
    unknown_cluster: str
    server: str

    @property
    def is_empty(self) -> bool:
        """Whether no gpu of this kind, real or simulated, was ever reported."""
        return not self.answer.gpus and not self.answer.nodes_never_reported


@router.get("/")
def get_fleet_page(request: Request, database: OpenDatabase) -> Response:
    """The fleet: counts by verdict, coverage, the worst nodes, the heat map."""
    query = query_of(request, FleetQuery)
    answer = read_fleet(database, query)
    links = _links(query)
    shown = fleet_page(
        answer,
        _nodes(database, query),
        links,
        cluster=query.cluster,
        clusters=() if links.simulated else _clusters(database),
        keeps=kept(query, "cluster"),
        simulated_href=_simulated_href(database, answer, links),
        server=str(request.base_url),
    )
    days = query.days if "days" in query.model_fields_set else None
    api = links.api("fleet", cluster=query.cluster, since=query.since, days=days)
    return html("fleet.html", Frame("Fleet", links, answer.as_of, api, visitor_of(request), "fleet"), shown)


@router.get("/ui/fleet/heatmap.svg")
def get_heat_map(request: Request, database: OpenDatabase) -> Response:
    """The map alone."""
    query = query_of(request, FleetQuery)
    return picture(heatmap_svg(heat_map(_nodes(database, query).nodes, _links(query))))


def fleet_page(
    answer: FleetAnswer,
    mapped: MappedNodes,
    links: Links,
    *,
    cluster: str | None = None,
    clusters: tuple[str, ...] = (),
    keeps: tuple[tuple[str, str], ...] = (),
    simulated_href: str | None = None,
    server: str = "",
) -> FleetPage:
    """The page from the answer, and from the nodes as they are now where no earlier time was asked for."""
    nodes = mapped.nodes
    troubled = answer.differing or any(answer.verdicts.get(state) for state in TROUBLED)
    one = answer.devices[0].slug if len(answer.devices) == 1 else None
    return FleetPage(
        answer=answer,
        sentence=capital(answer.sentence),
        is_good=not troubled and not answer.action_needed if answer.verdicts else None,
        tiles=tiles(
            answer.verdicts, lambda state: "#devices" if one is None else _listed(links, one, state, cluster=cluster)
        ),
        devices=tuple(
            tiles(device.verdicts, partial(_listed, links, device.slug, cluster=cluster)) for device in answer.devices
        ),
        slow=tuple(
            (kind, place)
            for kind, places in (("rack", answer.slow_racks), ("node", answer.slow_nodes))
            for place in places[:MOST_PLACES]
        ),
        more_slow=(*more_places("rack", answer.slow_racks), *more_places("node", answer.slow_nodes)),
        stragglers=tuple(capital(straggler_words(cost)) for cost in answer.stragglers),
        heat=inline_chart(heatmap_svg, heat_map(nodes, links)) if nodes else "",
        heat_href=links.of("/ui/fleet/heatmap.svg", **({} if cluster is None else {"cluster": cluster})),
        heat_rows=heat_rows(nodes, links) if len(nodes) <= _MOST_ROWS else (),
        nodes=mapped.total,
        mapped=len(nodes),
        nodes_href=links.nodes(**({} if cluster is None else {"cluster": cluster})),
        simulated_href=simulated_href,
        clusters=choices(clusters, cluster) if len(clusters) > 1 else (),
        keeps=keeps,
        unknown_cluster=cluster if cluster is not None and clusters and cluster not in clusters else "",
        server=server.rstrip("/"),
    )


def _links(query: FleetQuery) -> Links:
    return Links(simulated=query.cluster == SIMULATED, as_of=query.as_of)


def _nodes(database: Database, query: FleetQuery) -> MappedNodes:
    if query.as_of is not None:  # where gpus were, and what was said of them, is kept as of now alone
        return MappedNodes()
    with database.reading() as session:
        names = node_names(session, cluster=query.cluster)
        shown = names
        if len(names) > MOST_MAPPED:
            troubled = node_names(session, cluster=query.cluster, states=TROUBLED)
            shown = sorted([*troubled, *sorted(set(names) - set(troubled))][:MOST_MAPPED])
        return MappedNodes(fleet_nodes(session, shown), len(names))


def _clusters(database: Database) -> tuple[str, ...]:
    """All that have nodes or should have them."""
    with database.reading() as session:
        return tuple(sorted({name.cluster for name in node_names(session, cluster=None)}))


def _simulated_href(database: Database, answer: FleetAnswer, links: Links) -> str | None:
    if answer.gpus or links.simulated:
        return None
    with database.reading() as session:
        found = device_counts(session, Span(answer.as_of, simulated=True))
    return Links(simulated=True).fleet() if found else None


def _listed(links: Links, slug: str, state: str, *, cluster: str | None) -> str:
    return links.device(slug, verdict=state, **({} if cluster is None else {"cluster": cluster}))
