"""A node as its newest reports show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.node_schemas import NodeAnswer, NodeGpu, Roster, RosterEntry
from fleetridge_server.schemas import ReportSummary
from fleetridge_server.store.models import Device, Gpu, Node, Report
from fleetridge_server.store.summaries import known_gpu_ids, reports_of_node

# Enough to see since when a node has been failing; older ones are in the history of its gpus.
_NODE_REPORTS = 20


def node_answer(session: Session, node: Node, as_of: datetime) -> NodeAnswer:
    """A node with its gpus, the newest reports about itself, its roster, and what follows from them."""
    query = (
        select(Gpu, Device.name, Report)
        .join(Device, Device.id == Gpu.device_id)
        .join(Report, Report.id == Gpu.last_report_id)
        .where(Gpu.node_id == node.id)
    )
    found = [_node_gpu(gpu, device, latest, node) for gpu, device, latest in session.execute(query)]
    gpus = sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.gpu_id))
    reports = reports_of_node(session, node.id, as_of=as_of, limit=_NODE_REPORTS)
    return NodeAnswer(
        cluster=node.cluster,
        name=node.name,
        labels=node.labels,
        first_seen=node.first_seen,
        last_seen=node.last_seen,
        gpus=tuple(gpus),
        missing=tuple(gpu.gpu_id for gpu in gpus if gpu.missing),
        notes=tuple(_notes(node, gpus, reports)),
        roster=_roster(node, known_gpu_ids(session, _listed_ids(node))),
        reports=tuple(reports),
    )


def _node_gpu(gpu: Gpu, device: str, latest: Report, node: Node) -> NodeGpu:
    return NodeGpu(
        gpu_id=gpu.id,
        device=device,
        index=gpu.gpu_index,
        pci_bus_id=gpu.pci_bus_id,
        mig_profile=gpu.mig_profile,
        partition=gpu.partition,
        outcome=latest.outcome,
        reason=latest.reason,
        contended=latest.contended,
        ordered_at=latest.ordered_at,
        missing=_is_missing(gpu, node),
    )


def _listed_ids(node: Node) -> set[str]:
    return {entry["gpu_id"] for entry in node.roster or () if entry["gpu_id"] is not None}


def _is_missing(gpu: Gpu, node: Node) -> bool:
    """Whether a newer complete roster of its node no longer lists a gpu; an incomplete one would prove nothing."""
    if node.roster is None or node.roster_seen is None or gpu.last_seen is None:
        return False
    return gpu.last_seen < node.roster_seen and gpu.id not in _listed_ids(node)


def _roster(node: Node, known: set[str]) -> Roster | None:
    if node.roster is None or node.roster_report_id is None:
        return None
    entries = [_entry(entry, known) for entry in node.roster]
    return Roster(seen=node.roster_seen, report_id=node.roster_report_id, gpus=tuple(entries))


def _entry(entry: dict[str, Any], known: set[str]) -> RosterEntry:
    return RosterEntry(**entry, reported=entry["gpu_id"] in known)


def _notes(node: Node, gpus: Sequence[NodeGpu], reports: Sequence[ReportSummary]) -> Iterable[str]:
    """What a reader might overlook, in words."""
    if reports and reports[0].report_id == node.last_report_id:
        yield f"the newest report is about the node as a whole: {reports[0].outcome}, {reports[0].reason}"
    by_slot: dict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        if gpu.pci_bus_id is not None and gpu.mig_profile is None and gpu.partition is None:
            by_slot[gpu.pci_bus_id].append(gpu.gpu_id)
    for slot, ids in sorted(by_slot.items()):
        if len(ids) > 1:
            yield f"{', '.join(ids)} report the same PCI bus id {slot}: a replaced card, or two hosts of one name"
