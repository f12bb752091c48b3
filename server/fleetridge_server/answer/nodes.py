"""From what is stored about a node to the shape of its answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fleetridge_server.answer.devices import report_summary
from fleetridge_server.answer.node_schemas import NodeAnswer, NodeGpu, Roster, RosterEntry
from fleetridge_server.answer.schemas import ReportSummary
from fleetridge_server.store.models import Gpu, Node
from fleetridge_server.store.nodes import GpuOnNode, NodeRecord


def node_answer(record: NodeRecord) -> NodeAnswer:
    """A node with its gpus, the newest reports about itself, its roster, and what follows from them."""
    node = record.node
    found = [_node_gpu(own, record) for own in record.gpus]
    gpus = sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.gpu_id))
    reports = tuple(report_summary(named) for named in record.reports)
    return NodeAnswer(
        cluster=node.cluster,
        name=node.name,
        labels=node.labels,
        first_seen=node.first_seen,
        last_seen=node.last_seen,
        gpus=tuple(gpus),
        missing=tuple(gpu.gpu_id for gpu in gpus if gpu.missing),
        notes=tuple(_notes(node, gpus, reports)),
        roster=_roster(record),
        reports=reports,
    )


def _node_gpu(own: GpuOnNode, record: NodeRecord) -> NodeGpu:
    gpu, latest = own.gpu, own.latest
    return NodeGpu(
        gpu_id=gpu.identity,
        device=own.device,
        index=gpu.gpu_index,
        pci_bus_id=gpu.pci_bus_id,
        mig_profile=gpu.mig_profile,
        partition=gpu.partition,
        outcome=latest.outcome,
        reason=latest.reason,
        contended=latest.contended,
        ordered_at=latest.ordered_at,
        missing=_is_missing(gpu, record),
    )


def _is_missing(gpu: Gpu, record: NodeRecord) -> bool:
    """Whether a newer complete roster of its node no longer lists a gpu; an incomplete one would prove nothing."""
    node = record.node
    if node.roster is None or node.roster_seen is None or gpu.last_seen is None:
        return False
    return gpu.last_seen < node.roster_seen and gpu.identity not in record.listed


def _roster(record: NodeRecord) -> Roster | None:
    node = record.node
    if node.roster is None or node.roster_report_id is None:
        return None
    entries = tuple(RosterEntry(**entry, reported=entry["gpu_id"] in record.reported) for entry in node.roster)
    return Roster(seen=node.roster_seen, report_id=node.roster_report_id, gpus=entries)


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
