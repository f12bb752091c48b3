"""A node with all that is stored about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.store.models import Device, Gpu, Node, Report
from fleetridge_server.store.summaries import NamedReport, known_identities, reports_of_node

# Enough to see since when a node has been failing; older ones are in the history of its gpus.
_NODE_REPORTS = 20


@dataclass(frozen=True, slots=True)
class GpuOnNode:
    """A gpu whose newest report came from a node, and that report."""

    gpu: Gpu
    device: str
    latest: Report


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """
    A node, its gpus in no order, and the newest reports about itself.

    Attributes:
        reported: those of its roster's gpus that ever reported.
    """

    node: Node
    gpus: tuple[GpuOnNode, ...]
    reports: tuple[NamedReport, ...]
    reported: frozenset[str]

    @property
    def listed(self) -> frozenset[str]:
        """Identities in the node's newest complete roster."""
        return _listed(self.node)


def node_record(session: Session, node: Node, as_of: datetime) -> NodeRecord:
    """All that is stored about a node; `as_of` bounds the reports about itself."""
    query = (
        select(Gpu, Device.name, Report)
        .join(Device, Device.id == Gpu.device_id)
        .join(Report, Report.id == Gpu.last_report_id)
        .where(Gpu.node_id == node.id)
    )
    return NodeRecord(
        node=node,
        gpus=tuple(GpuOnNode(gpu, device, latest) for gpu, device, latest in session.execute(query)),
        reports=tuple(reports_of_node(session, node.id, as_of=as_of, limit=_NODE_REPORTS)),
        reported=frozenset(known_identities(session, _listed(node), simulated=node.cluster == SIMULATED)),
    )


def _listed(node: Node) -> frozenset[str]:
    return frozenset(entry["gpu_id"] for entry in node.roster or () if entry["gpu_id"] is not None)
