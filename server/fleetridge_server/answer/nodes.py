"""From what is stored about a node to the shape of its answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from fleetridge_server.answer.devices import report_summary
from fleetridge_server.answer.evaluated import verdict_shown
from fleetridge_server.answer.fleet_nodes import trouble
from fleetridge_server.answer.node_schemas import NodeAnswer, NodeGpu, Roster, RosterEntry
from fleetridge_server.answer.place_schemas import AbsenceShown
from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.answer.schemas import ReportSummary
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.answer.stragglers import FEWEST_GPUS, Job, Worker, straggler
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.evaluation.read import DatedVerdict
from fleetridge_server.store.models import Gpu
from fleetridge_server.store.nodes import GpuOnNode, NodeRecord
from fleetridge_server.verdict.state import STATES, State


def node_answer(record: NodeRecord, absences: Sequence[AbsenceShown]) -> NodeAnswer:
    """
    A node with its gpus, the newest reports about itself, its roster, and what follows from them.

    Args:
        record: all that is stored about it.
        absences: what the newest evaluations miss on it.
    """
    node = record.row
    found = [_node_gpu(own, record) for own in record.gpus]
    gpus = sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.gpu_id))
    reports = tuple(report_summary(named) for named in record.reports)
    return NodeAnswer(
        cluster=record.name.cluster,
        name=record.name.name,
        never_reported=node is None,
        labels={} if node is None else node.labels,
        evaluated_as_of=record.evaluated_as_of,
        verdicts=_counts(record.verdicts.values()),
        worst=_worst(record.verdicts.values()),
        first_seen=None if node is None else node.first_seen,
        last_seen=None if node is None else node.last_seen,
        gpus=tuple(gpus),
        missing=tuple(_missing(gpus, record)),
        unnamed=sum(absence.unnamed for absence in absences),
        stragglers=tuple(_stragglers(record)),
        notes=tuple(_notes(record, gpus, reports)),
        roster=_roster(record),
        reports=reports,
    )


def _counts(verdicts: Iterable[DatedVerdict]) -> dict[State, int]:
    counts = Counter(own.verdict.state for own in verdicts)
    return {state: counts[state] for state in STATES if counts[state]}


def _worst(verdicts: Iterable[DatedVerdict]) -> str | None:
    troubles = [
        (trouble(own.verdict.state, own.verdict.last_state, own.verdict.worst_loss), own.verdict.gpu_id)
        for own in verdicts
    ]
    return min(troubles)[1] if troubles else None


def _missing(gpus: Iterable[NodeGpu], record: NodeRecord) -> list[str]:
    """Gpus that are gone from here, and those that are expected and nobody ever saw."""
    here = {gpu.gpu_id for gpu in gpus}
    never_seen = [
        gpu_id for gpu_id, own in record.verdicts.items() if own.verdict.state == "missing" and gpu_id not in here
    ]
    return [*(gpu.gpu_id for gpu in gpus if gpu.missing), *sorted(never_seen)]


def _stragglers(record: NodeRecord) -> Iterable[StragglerShown]:
    """What a job over the node's gpus loses to the slowest, in each of their roofs."""
    jobs: dict[tuple[RoofName, Conditions], list[Worker]] = defaultdict(list)
    units: dict[RoofName, str] = {}
    for own in record.verdicts.values():
        if own.verdict.state != "missing":
            for judged in own.verdict.roofs:
                if judged.recent:
                    jobs[judged.roof, judged.conditions].append(Worker(own.verdict.gpu_id, judged.value))
                    units[judged.roof] = judged.unit
    for (roof, conditions), workers in jobs.items():
        if len(workers) >= FEWEST_GPUS:
            yield straggler(Job("node", *record.name, roof, units[roof], conditions, workers))


def _node_gpu(own: GpuOnNode, record: NodeRecord) -> NodeGpu:
    gpu, latest, told = own.gpu, own.latest, record.verdicts.get(own.gpu.identity)
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
        retired=gpu.identity in record.retired,
        verdict=None if told is None else verdict_shown(*told),
    )


def _is_missing(gpu: Gpu, record: NodeRecord) -> bool:
    """
    Whether a newer complete roster of its node no longer lists a gpu; an incomplete one would prove nothing.

    One that was retired is missed by nobody.
    """
    node = record.row
    if (
        node is None
        or gpu.identity in record.retired
        or node.roster is None
        or node.roster_seen is None
        or gpu.last_seen is None
    ):
        return False
    return gpu.last_seen < node.roster_seen and gpu.identity not in record.listed


def _roster(record: NodeRecord) -> Roster | None:
    node = record.row
    if node is None or node.roster is None or node.roster_report_id is None:
        return None
    entries = tuple(RosterEntry(**entry, reported=entry["gpu_id"] in record.reported) for entry in node.roster)
    return Roster(seen=node.roster_seen, report_id=node.roster_report_id, gpus=entries)


def _notes(record: NodeRecord, gpus: Sequence[NodeGpu], reports: Sequence[ReportSummary]) -> Iterable[str]:
    """What a reader might overlook, in words."""
    node = record.row
    if node is None:
        yield "the inventory expects this node, and nothing was ever heard of it"
    elif reports and reports[0].report_id == node.last_report_id:
        yield f"the newest report is about the node as a whole: {reports[0].outcome}, {reports[0].reason}"
    by_slot: dict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        if gpu.pci_bus_id is not None and gpu.mig_profile is None and gpu.partition is None:
            by_slot[gpu.pci_bus_id].append(gpu.gpu_id)
    for slot, ids in sorted(by_slot.items()):
        if len(ids) > 1:
            yield f"{', '.join(ids)} report the same PCI bus id {slot}: a replaced card, or two hosts of one name"
