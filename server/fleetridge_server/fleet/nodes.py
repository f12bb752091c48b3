"""
Nodes with their gpus: all that reported or are expected (`fleet_nodes`), and one by itself (`node_record`).

Verdicts are those of now. A gpu that the inventory names and nobody ever saw has one too, on the node that it is
expected on.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.orm import Session

from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Device, Gpu, Node, Report
from fleetridge_server.db.verdict_tables import CurrentVerdict, InventoryEntry
from fleetridge_server.engine.cohort import SIMULATED, Span
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.gpu_state import MarkScope, covering, is_retired
from fleetridge_server.fleet.find import is_storable, names_of_devices
from fleetridge_server.fleet.locations import locations_of_gpus
from fleetridge_server.fleet.marks import marks_by_engine
from fleetridge_server.fleet.reports import NamedReport, known_identities, reports_of_node
from fleetridge_server.intake.hardware import is_usable
from fleetridge_server.verdicts.fleet_order import FleetOrder
from fleetridge_server.verdicts.stored import (
    DatedVerdict,
    EvaluationRef,
    VerdictSummary,
    current_evaluations,
    order_of,
    summaries_of,
    verdicts_of,
)


@dataclass(frozen=True, slots=True)
class GpuVerdictRow:
    """A gpu on a node, or expected there (`is_known`: it once reported), and what is said of it, if anything."""

    gpu_id: str
    device: str
    index: int | None
    is_known: bool
    said: VerdictSummary | None


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A node with its gpus; no row where only the inventory knows it, and what that expects where it says so."""

    name: NodeName
    row: Node | None
    gpus: list[GpuVerdictRow] = field(default_factory=list)
    expected_gpus: int | None = None


def node_names(
    session: Session,
    *,
    cluster: str | None,
    name: str | None = None,
    rack: str | None = None,
    states: Collection[str] | None = None,
) -> list[NodeName]:
    """
    Nodes by cluster and name; those of the simulator only where its cluster is asked for.

    The inventory knows no racks; `states` takes nodes with a gpu in one of them, now or when it was last measured.
    """
    if not all(is_storable(text) for text in (cluster, name, rack) if text is not None):
        return []
    if states is not None:
        found = set(_with_states(session, cluster, states))
    else:
        found = set(_seen_or_expected(session, cluster, name))
    if rack is not None:
        found &= _in_rack(session, cluster, rack)
    return sorted(found)


def fleet_nodes(session: Session, names: Collection[NodeName]) -> list[FleetNode]:
    """Some nodes with their gpus, in the order of the names."""
    nodes = {name: FleetNode(name, row) for name, row in _rows(session, names).items()}
    expected = _expected(session, names)
    for name, gpu in (*_gpus_there(session, nodes), *_gpus_expected(session, expected)):
        if all(gpu.gpu_id != own.gpu_id for own in nodes[name].gpus):
            nodes[name].gpus.append(gpu)
    counts: dict[NodeName, int] = defaultdict(int)
    for entry in expected:
        name = NodeName(entry.cluster, entry.node)
        counts[name] += entry.expected_gpus or 0
    return [FleetNode(name, nodes[name].row, nodes[name].gpus, counts.get(name) or None) for name in names]


def nodes_with_gpus_in(
    session: Session,
    ref: EvaluationRef,
    states: Collection[str],
    *,
    is_past: bool,
    others: Collection[str] = (),
) -> list[FleetNode]:
    """
    Nodes on which gpus are, or are expected, that an evaluation found in some states, or `others`; with those alone.

    Gpus are where they were at the time asked for (`is_past`), else where they are now. The nodes are without their
    rows; gpus that are on no node are left out.
    """
    [device] = names_of_devices(session, [ref.device_id]).values()
    summaries = summaries_of(session, ref, states=states)
    if others:
        summaries |= summaries_of(session, ref, gpu_ids=others)
    nodes: dict[NodeName, FleetNode] = {}
    unseen = set(summaries)
    for chunk in in_chunks(sorted(summaries)):
        rows = session.scalars(select(Gpu.id).where(Gpu.identity.in_(chunk), Gpu.simulated.is_(ref.simulated))).all()
        span = Span(ref.until, simulated=ref.simulated)
        for own in locations_of_gpus(session, rows, span, is_past=is_past).values():
            unseen.discard(own.gpu_id)
            if own.node is not None:
                gpu = GpuVerdictRow(own.gpu_id, device, own.index, is_known=True, said=summaries[own.gpu_id])
                name = NodeName(own.cluster, own.node)
                nodes.setdefault(name, FleetNode(name, None)).gpus.append(gpu)
    for chunk in in_chunks(sorted(unseen)):
        entries = session.scalars(select(InventoryEntry).where(InventoryEntry.gpu.in_(chunk)))
        for name, gpu in _gpus_expected(session, entries):
            nodes.setdefault(name, FleetNode(name, None)).gpus.append(gpu)
    return list(nodes.values())


def _in_cluster(column: Any, cluster: str | None) -> ColumnElement[bool]:  # noqa: ANN401 # a column of either table
    found: ColumnElement[bool] = column != SIMULATED if cluster is None else column == cluster
    return found


def _seen_or_expected(session: Session, cluster: str | None, name: str | None) -> Iterable[NodeName]:
    seen = select(Node.cluster, Node.name).where(_in_cluster(Node.cluster, cluster), ~Node.quarantined)
    expected = select(InventoryEntry.cluster, InventoryEntry.node).where(_in_cluster(InventoryEntry.cluster, cluster))
    if name is not None:
        seen, expected = seen.where(Node.name == name), expected.where(InventoryEntry.node == name)
    return (NodeName(*row) for query in (seen, expected.distinct()) for row in session.execute(query))


def _with_states(session: Session, cluster: str | None, states: Collection[str]) -> Iterable[NodeName]:
    verdict = CurrentVerdict
    said = or_(verdict.state.in_(states), and_(verdict.last_state.in_(states), verdict.state != "known"))
    there = (
        select(Node.cluster, Node.name)
        .join(Gpu, Gpu.node_id == Node.id)
        .join(CurrentVerdict, _is_of(Gpu.identity, Gpu.simulated))
        .where(said, _in_cluster(Node.cluster, cluster), ~Gpu.quarantined)
    )
    expected = (
        select(InventoryEntry.cluster, InventoryEntry.node)
        .join(CurrentVerdict, _is_of(InventoryEntry.gpu, InventoryEntry.cluster == SIMULATED))
        .outerjoin(Gpu, and_(_is_of(Gpu.identity, Gpu.simulated), ~Gpu.quarantined))
        .where(said, Gpu.id.is_(None), _in_cluster(InventoryEntry.cluster, cluster))
    )
    return (NodeName(*row) for query in (there, expected) for row in session.execute(query.distinct()))


def _in_rack(session: Session, cluster: str | None, rack: str) -> set[NodeName]:
    query = select(Node.cluster, Node.name, Node.labels).where(_in_cluster(Node.cluster, cluster), ~Node.quarantined)
    return {NodeName(row.cluster, row.name) for row in session.execute(query) if row.labels.get("rack") == rack}


def _is_of(identity: Any, simulated: Any) -> ColumnElement[bool]:  # noqa: ANN401 # columns of either table
    return and_(CurrentVerdict.identity == identity, CurrentVerdict.simulated == simulated)


def _rows(session: Session, names: Collection[NodeName]) -> dict[NodeName, Node | None]:
    found: dict[NodeName, Node | None] = dict.fromkeys(names)
    for chunk in in_chunks(sorted({name.name for name in names})):
        for node in session.scalars(select(Node).where(Node.name.in_(chunk), ~Node.quarantined)):
            if (name := NodeName(node.cluster, node.name)) in found:
                found[name] = node
    return found


def _expected(session: Session, names: Collection[NodeName]) -> list[InventoryEntry]:
    wanted = set(names)
    return [
        entry
        for chunk in in_chunks(sorted({name.name for name in names}))
        for entry in session.scalars(select(InventoryEntry).where(InventoryEntry.node.in_(chunk)))
        if NodeName(entry.cluster, entry.node) in wanted
    ]


def _gpus_there(session: Session, nodes: dict[NodeName, FleetNode]) -> Iterable[tuple[NodeName, GpuVerdictRow]]:
    name_of = {node.row.id: name for name, node in nodes.items() if node.row is not None}
    losses = _Losses(session)
    for chunk in in_chunks(sorted(name_of)):
        query = (
            _said(Gpu.gpu_index, Gpu.node_id, Gpu.id.label("gpu_row"), Gpu.device_id, Gpu.simulated)
            .select_from(Gpu)
            .join(Device, Device.id == Gpu.device_id)
            .outerjoin(CurrentVerdict, _is_of(Gpu.identity, Gpu.simulated))
            .add_columns(Gpu.identity.label("gpu_id"))
            .where(Gpu.node_id.in_(chunk), ~Gpu.quarantined)
        )
        for row in session.execute(query):
            loss = losses.of(row.device_id, row.gpu_row, simulated=row.simulated)
            yield name_of[row.node_id], _said_of(row, row.gpu_index, loss, is_known=True)


class _Losses:
    """Largest loss of gpus by the newest evaluations, which are read when they are first asked for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._orders: dict[bool, dict[int, FleetOrder]] = {}

    def of(self, device_id: int, gpu_row: int, *, simulated: bool) -> float | None:
        """Loss of one gpu."""
        if simulated not in self._orders:
            refs = current_evaluations(self._session, simulated=simulated)
            self._orders[simulated] = {ref.device_id: order_of(self._session, ref) for ref in refs}
        order = self._orders[simulated].get(device_id)
        return None if order is None else order.loss_of(gpu_row)


def _gpus_expected(session: Session, entries: Iterable[InventoryEntry]) -> Iterable[tuple[NodeName, GpuVerdictRow]]:
    """Gpus that the inventory names and nobody ever saw."""
    named = {entry.gpu: entry for entry in entries if entry.gpu is not None}
    for chunk in in_chunks(sorted(named)):
        query = (
            _said()
            .select_from(CurrentVerdict)
            .join(Device, Device.id == CurrentVerdict.device_id)
            .outerjoin(Gpu, and_(_is_of(Gpu.identity, Gpu.simulated), ~Gpu.quarantined))
            .add_columns(CurrentVerdict.identity.label("gpu_id"), CurrentVerdict.simulated)
            .where(CurrentVerdict.identity.in_(chunk), Gpu.id.is_(None))
        )
        for row in session.execute(query):
            entry = named[row.gpu_id]
            if row.simulated == (entry.cluster == SIMULATED):
                yield NodeName(entry.cluster, entry.node), _said_of(row, None, None, is_known=False)


def _said(*more: Any) -> Select[Any]:  # noqa: ANN401 # columns
    verdict = CurrentVerdict
    own = (verdict.state, verdict.last_state, verdict.since, verdict.reason)
    return select(Device.name.label("device"), *own, *more)


def _said_of(row: Any, index: int | None, loss: float | None, *, is_known: bool) -> GpuVerdictRow:  # noqa: ANN401 # a row of such a query
    verdict = (row.gpu_id, row.state, row.last_state, row.since, row.reason, loss)
    said = None if row.state is None else VerdictSummary(*verdict)
    return GpuVerdictRow(row.gpu_id, row.device, index, is_known, said)


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
        """Identities in the node's newest complete roster, those that are lost left out."""
        return _listed(self.row)


def node_record(session: Session, name: NodeName, as_of: datetime) -> NodeRecord:
    """All that is stored about a node; `as_of` bounds the reports about itself."""
    simulated = name.cluster == SIMULATED
    own = select(Node).where(Node.cluster == name.cluster, Node.name == name.name, ~Node.quarantined)
    row = session.scalars(own).one_or_none()
    gpus = () if row is None else tuple(_gpus(session, row))
    evaluations = current_evaluations(session, simulated=simulated)
    gpu_ids = {own.gpu.identity for own in gpus} | _expected_gpus(session, name)
    used = {own.gpu.device_id for own in gpus}
    return NodeRecord(
        name=name,
        row=row,
        gpus=gpus,
        reports=() if row is None else tuple(reports_of_node(session, row.id, as_of=as_of, limit=_NODE_REPORTS)),
        reported=frozenset(known_identities(session, _listed(row), simulated=simulated)),
        verdicts=dict(chain.from_iterable(verdicts_of(session, ref, gpu_ids).items() for ref in evaluations)),
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


def _expected_gpus(session: Session, name: NodeName) -> set[str]:
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
        own.gpu.identity for own in gpus if is_retired(covering(marks, MarkScope(own.gpu.identity, name, rack), as_of))
    )


def _listed(node: Node | None) -> frozenset[str]:
    roster = () if node is None else node.roster or ()
    return frozenset(entry["gpu_id"] for entry in roster if entry["gpu_id"] is not None and is_usable(entry))
