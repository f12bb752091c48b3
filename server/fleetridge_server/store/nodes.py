"""A node with all that is stored about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.evaluation.read import DatedVerdict, EvaluationRef, current_evaluations, verdicts_of
from fleetridge_server.store.marks import marks_by_engine
from fleetridge_server.store.models import Device, Gpu, Node, Report
from fleetridge_server.store.summaries import NamedReport, known_identities, reports_of_node
from fleetridge_server.store.verdict_models import InventoryEntry
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.marks import Place, covering, is_retired

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
        row: None where only the inventory knows it.
        reported: those of its roster's gpus that ever reported.
        verdicts: on its gpus, and on those that the inventory expects there, by id.
        retired: gpus that a mark takes out of the fleet.
        evaluated_as_of: of the oldest evaluation that the verdicts come from; None where there is none.
    """

    name: NodeName
    row: Node | None
    gpus: tuple[GpuOnNode, ...]
    reports: tuple[NamedReport, ...]
    reported: frozenset[str]
    verdicts: Mapping[str, DatedVerdict]
    retired: frozenset[str]
    evaluated_as_of: datetime | None

    @property
    def listed(self) -> frozenset[str]:
        """Identities in the node's newest complete roster."""
        return _listed(self.row)


def node_record(session: Session, name: NodeName, as_of: datetime) -> NodeRecord:
    """All that is stored about a node; `as_of` bounds the reports about itself."""
    simulated = name.cluster == SIMULATED
    own = select(Node).where(Node.cluster == name.cluster, Node.name == name.name, ~Node.quarantined)
    row = session.scalars(own).one_or_none()
    gpus = () if row is None else tuple(_gpus(session, row))
    evaluations = current_evaluations(session, simulated=simulated)
    verdicts = _verdicts(session, evaluations, {own.gpu.identity for own in gpus} | _expected(session, name))
    used = {own.gpu.device_id for own in gpus}
    return NodeRecord(
        name=name,
        row=row,
        gpus=gpus,
        reports=() if row is None else tuple(reports_of_node(session, row.id, as_of=as_of, limit=_NODE_REPORTS)),
        reported=frozenset(known_identities(session, _listed(row), simulated=simulated)),
        verdicts=verdicts,
        retired=_retired(session, name, row, gpus, as_of),
        evaluated_as_of=min((own.as_of for own in evaluations if own.device_id in used), default=None),
    )


def _gpus(session: Session, node: Node) -> Iterable[GpuOnNode]:
    query = (
        select(Gpu, Device.name, Report)
        .join(Device, Device.id == Gpu.device_id)
        .join(Report, Report.id == Gpu.last_report_id)
        .where(Gpu.node_id == node.id, ~Gpu.quarantined)
    )
    return (GpuOnNode(gpu, device, latest) for gpu, device, latest in session.execute(query))


def _verdicts(
    session: Session, evaluations: Iterable[EvaluationRef], gpu_ids: Collection[str]
) -> dict[str, DatedVerdict]:
    found: dict[str, DatedVerdict] = {}
    for ref in evaluations:
        found |= verdicts_of(session, ref, gpu_ids)
    return found


def _expected(session: Session, name: NodeName) -> set[str]:
    """Gpus that the inventory expects on a node and nobody ever saw elsewhere."""
    entries = select(InventoryEntry.gpu).where(InventoryEntry.cluster == name.cluster, InventoryEntry.node == name.name)
    expected = {gpu for gpu in session.scalars(entries) if gpu is not None}
    return expected - known_identities(session, expected, simulated=name.cluster == SIMULATED)


def _retired(
    session: Session, name: NodeName, row: Node | None, gpus: Iterable[GpuOnNode], as_of: datetime
) -> frozenset[str]:
    marks = marks_by_engine(session, simulated=name.cluster == SIMULATED, as_of=as_of)
    rack = None if row is None else row.labels.get("rack")
    return frozenset(
        own.gpu.identity for own in gpus if is_retired(covering(marks, Place(own.gpu.identity, name, rack), as_of))
    )


def _listed(node: Node | None) -> frozenset[str]:
    roster = () if node is None else node.roster or ()
    return frozenset(entry["gpu_id"] for entry in roster if entry["gpu_id"] is not None)
