"""One node: its gpus, what it said of itself, and which gpus are missing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from fleetridge_server import text
from fleetridge_server.answer.node_schemas import NodeAnswer
from fleetridge_server.answer.nodes import node_answer
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.negotiation import answered, documented
from fleetridge_server.api.paging import moment
from fleetridge_server.problems import ProblemError
from fleetridge_server.store.lookup import nodes_named
from fleetridge_server.store.models import Node
from fleetridge_server.store.nodes import node_record

router = APIRouter(tags=["nodes"])


class NodeQuery(BaseModel):
    """Parameters of one node."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: Annotated[str | None, Field(description="Cluster of the node, needed where several have the name.")] = None


@router.get(
    "/nodes/{name:path}",
    response_model=NodeAnswer,
    responses=documented(
        {
            404: "No node has this name.",
            409: "Nodes of several clusters have this name; `clusters` lists them.",
            422: "A parameter is not as described.",
        }
    ),
)
def get_node(request: Request, database: OpenDatabase, name: str, query: Annotated[NodeQuery, Query()]) -> Response:
    """One node as it is now: its gpus with their newest outcome, reports about the node itself, and missing gpus."""
    with database.reading() as session:
        record = node_record(session, _only_one(nodes_named(session, name, query.cluster)), moment(None))
    return answered(request, node_answer(record), text.node)


def _only_one(nodes: list[Node]) -> Node:
    if not nodes:
        detail = (
            "no node has this name (in this cluster); GET /devices lists the devices, GET /devices/{name}/ridge the "
            "gpus of one with their nodes"
        )
        raise ProblemError(404, "unknown_node", "There is no such node", detail)
    if len(nodes) > 1:
        clusters = [node.cluster for node in nodes]
        detail = f"clusters {', '.join(clusters)} each have a node of this name; add ?cluster= and one of them"
        raise ProblemError(
            409, "ambiguous_node", "Several nodes have this name", detail, members={"clusters": clusters}
        )
    return nodes[0]
