"""The page of the whole fleet: is it good, and if not, where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request, Response

from fleetridge_server.answer.fleet import TROUBLED
from fleetridge_server.answer.fleet_schemas import FleetAnswer
from fleetridge_server.answer.place_schemas import SlowPlace
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.fleet import FleetQuery, read_fleet
from fleetridge_server.compare.span import SIMULATED, Span
from fleetridge_server.drawing.heatmap import heatmap_svg
from fleetridge_server.drawing.inline import inline_chart
from fleetridge_server.pages.asking import kept, query_of
from fleetridge_server.pages.forms import visitor_of
from fleetridge_server.pages.heat import HeatRow, heat_map, heat_rows
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.rendering import Frame, html, picture
from fleetridge_server.pages.words import Choice, Tile, capital, choices, tiles
from fleetridge_server.store.database import Database
from fleetridge_server.store.fleet_nodes import FleetNode, fleet_nodes, node_names
from fleetridge_server.store.locations import device_counts
from fleetridge_server.text.stragglers import straggler_words

router = APIRouter(include_in_schema=False)

# A table of more nodes is read by nobody; the API has them page by page.
_MOST_ROWS = 1000

# Of a larger fleet nobody finds a gpu in the map, which would take seconds and megabytes.
MOST_MAPPED = 1500


@dataclass(frozen=True, slots=True)
class MappedNodes:
    """
    Nodes of the map with their gpus, as they are now.

    Attributes:
        nodes: all that there are, or so many of them, those with a gpu in trouble before the others.
        total: how many there are.
    """

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
        slow: places that are slow as a whole, each once, with its kind and in its worst roof.
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
        """Whether nothing has ever been heard of this population."""
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
    """
    The page from the answer and the nodes as they are now.

    Args:
        answer: about the fleet.
        mapped: none where an earlier time was asked for.
        links: of the page.
        cluster: that was asked for.
        clusters: that there are.
        keeps: what the form that chooses among them sends along.
        simulated_href: see `FleetPage`.
        server: address of this server, for the command that posts a first report.
    """
    nodes = mapped.nodes
    troubled = any(answer.verdicts.get(state) for state in TROUBLED)
    one = answer.devices[0].slug if len(answer.devices) == 1 else None
    return FleetPage(
        answer=answer,
        sentence=capital(answer.sentence),
        is_good=not troubled if answer.verdicts else None,
        tiles=tiles(
            answer.verdicts, lambda state: "#devices" if one is None else _listed(links, one, state, cluster=cluster)
        ),
        devices=tuple(
            tiles(device.verdicts, partial(_listed, links, device.slug, cluster=cluster)) for device in answer.devices
        ),
        slow=(*_each_once("rack", answer.slow_racks), *_each_once("node", answer.slow_nodes)),
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


def _each_once(kind: str, places: Sequence[SlowPlace]) -> list[tuple[str, SlowPlace]]:
    """Places, each in the roof in which it loses most; they come worst first."""
    found: dict[tuple[str, str], SlowPlace] = {}
    for place in places:
        found.setdefault((place.cluster, place.name), place)
    return [(kind, place) for place in found.values()]
