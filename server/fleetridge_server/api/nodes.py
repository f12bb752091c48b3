"""Nodes: all of them, those for a scheduler to leave out, and one with its gpus."""

from bisect import bisect_right
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.fleet.nodes import fleet_nodes as read_nodes
from fleetridge_server.fleet.nodes import node_names, node_record
from fleetridge_server.http.answers import TEXT, answered, documented
from fleetridge_server.http.parameters import (
    ListQuery,
    OpenDatabase,
    Position,
    VerdictFilter,
    list_id,
    moment,
    page,
    position_after,
    states_of,
)
from fleetridge_server.problems import ProblemError
from fleetridge_server.responses.node import NodeAnswer, NodeList, node_answer
from fleetridge_server.responses.node_list import absences_by_node, folded, health_by_node, is_host, node_row
from fleetridge_server.text import node as node_text
from fleetridge_server.verdicts.evaluation_shapes import AbsenceShown
from fleetridge_server.verdicts.stored import current_evaluations

router = APIRouter(tags=["nodes"])

# Slurm itself takes no longer list of hosts; who has more nodes in trouble has another trouble.
_MOST_HOSTS = 10_000

_LEFT_OUT = "Fleetridge-Left-Out"


class NodeQuery(BaseModel):
    """Parameters of one node."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: Annotated[str | None, Field(description="Cluster of the node, needed where several have the name.")] = None


class NodesFilter(ListQuery):
    """Parameters of a list of nodes."""

    cluster: Annotated[
        str | None, Field(description="Only this cluster; `simulated` for made-up nodes, else left out.")
    ] = None
    rack: Annotated[str | None, Field(description="Only nodes with this label `rack`.")] = None
    verdict: VerdictFilter = None


class NodesQuery(NodesFilter):
    """Parameters of the list of nodes, or of the line that a scheduler takes."""

    format: Annotated[
        Literal["hostlist"] | None,
        Field(description="`hostlist`: all their names in one line of plain text, as Slurm's `--exclude` takes them."),
    ] = None


@router.get(
    "/nodes",
    response_model=NodeList,
    responses=documented(
        {
            409: "A host list of several clusters, in which names may mean other nodes; `clusters` lists them.",
            422: "A parameter is not as described, or a host list would have more than 10,000 names.",
        }
    ),
)
def get_nodes(request: Request, database: OpenDatabase, query: Annotated[NodesQuery, Query()]) -> Response:
    """
    Every node that reported or that the inventory expects, with its worst gpu and what is missing, as it is now.

    With `format=hostlist` all names in one line, `n[01-03,07]`, for `--exclude` of a scheduler; names that no host can
    have are left out, and the header `Fleetridge-Left-Out` counts them.
    """
    this_list = list_id(request.url.path, query)
    position = position_after(query.after, this_list)
    as_of = moment(None, position)
    with database.reading() as session:
        names = node_names(session, cluster=query.cluster, rack=query.rack, states=states_of(query.verdict))
        if query.format is not None:
            return _hostlist(names)
        if position is not None:
            names = names[bisect_right(names, NodeName(position.cluster or "", position.name)) :]
        shown, following = page(
            names,
            query.limit,
            lambda name: Position(of_list=this_list, as_of=as_of, cluster=name.cluster, name=name.name),
        )
        nodes = read_nodes(session, shown)
        evaluations = current_evaluations(session, simulated=query.cluster == SIMULATED)
    absences = absences_by_node(absence for ref in evaluations for absence in ref.body.absences)
    health = health_by_node(own for ref in evaluations for own in ref.body.health)
    rows = tuple(node_row(node, absences.get(node.name, ()), health.get(node.name, ())) for node in nodes)
    return answered(request, NodeList(as_of=as_of, nodes=rows, next=following), node_text.node_list)


@router.get(
    "/nodes/{name:path}",
    response_model=NodeAnswer,
    responses=documented(
        {
            404: "No node has this name.",
            409: "Nodes of several clusters have this name; `clusters` lists them.",
        }
    ),
)
def get_node(request: Request, database: OpenDatabase, name: str, query: Annotated[NodeQuery, Query()]) -> Response:
    """
    One node as it is now: its gpus with their newest outcome and verdict, what is missing, reports about the node.

    A node that only the inventory knows is there too, without gpus that reported.
    """
    return answered(request, read_node(database, name, query), node_text.node)


def read_node(database: Database, name: str, query: NodeQuery) -> NodeAnswer:
    """The answer. Raises ProblemError: 404, there is no such node; 409, several clusters have one."""
    with database.reading() as session:
        clusters = [node.cluster for node in node_names(session, cluster=query.cluster, name=name)]
        found = NodeName(_only_one(clusters), name)
        record = node_record(session, found, moment(None))
        absences = absences_by_node(_absences(session, simulated=found.cluster == SIMULATED)).get(found, [])
    return node_answer(record, absences)


def _only_one(clusters: list[str]) -> str:
    if not clusters:
        detail = (
            "no node has this name (in this cluster); GET /nodes lists them, GET /devices the devices, "
            "GET /devices/{name}/ridge the gpus of one with their nodes"
        )
        raise ProblemError(404, "unknown_node", "There is no such node", detail)
    if len(clusters) > 1:
        detail = f"clusters {', '.join(clusters)} each have a node of this name; add ?cluster= and one of them"
        raise ProblemError(
            409, "ambiguous_node", "Several nodes have this name", detail, members={"clusters": clusters}
        )
    return clusters[0]


def _hostlist(names: list[NodeName]) -> Response:
    clusters = sorted({name.cluster for name in names})
    if len(clusters) > 1:
        detail = (
            f"these nodes are in clusters {', '.join(clusters)}, whose schedulers may call other nodes so; "
            "add ?cluster= and one of them"
        )
        title = "These nodes are in several clusters"
        raise ProblemError(409, "several_clusters", title, detail, members={"clusters": clusters})
    if len(names) > _MOST_HOSTS:
        detail = f"{len(names)} nodes are more than the {_MOST_HOSTS} that a host list may have; ask by cluster or rack"
        raise ProblemError(422, "too_many_hosts", "Too many nodes for a host list", detail)
    left_out = sum(not is_host(name.name) for name in names)
    headers = {_LEFT_OUT: str(left_out)} if left_out else None
    return Response(f"{folded(name.name for name in names)}\n", media_type=f"{TEXT}; charset=utf-8", headers=headers)


def _absences(session: Session, *, simulated: bool) -> list[AbsenceShown]:
    """What the newest evaluations of all devices miss."""
    return [absence for ref in current_evaluations(session, simulated=simulated) for absence in ref.body.absences]
