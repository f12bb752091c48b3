"""One node: its gpus, its roster, what its slowest costs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from fleetridge_server.db.tables import Gpu
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.gpu_state import STATES, State, what_is_said
from fleetridge_server.engine.health import HealthCode
from fleetridge_server.evaluation.summary import FEWEST_GPUS, Job, JobGpu, straggler
from fleetridge_server.fleet.nodes import GpuOnNode, NodeRecord
from fleetridge_server.responses.device import report_summary
from fleetridge_server.responses.verdict import VerdictShown, verdict_shown
from fleetridge_server.verdicts.evaluation_shapes import AbsenceShown, StragglerShown
from fleetridge_server.verdicts.roof_shapes import Answer, ReportSummary, RoofName, shape_of
from fleetridge_server.verdicts.stored import DatedVerdict

# For people who look for trouble: what is gone and what is slow before what nobody measured.
WORST_FIRST: tuple[State, ...] = (
    "missing", "outlier", "drifted", "implausible", "suspect", "unmeasured", "contended", "stale", "known",
    "insufficient_peers", "ok",
)  # fmt: skip


class NodeGpu(Answer):
    """
    A gpu whose newest report came from this node, with that report's outcome.

    `verdict` is null before the first evaluation and for a gpu that is `retired`.
    """

    gpu_id: str
    device: str
    index: int | None
    pci_bus_id: str | None
    mig_profile: str | None
    partition: str | None
    outcome: str
    reason: str | None
    contended: bool | None
    ordered_at: datetime | None
    missing: bool
    retired: bool
    verdict: VerdictShown | None


class RosterEntry(Answer):
    """
    A gpu as the driver listed it, and whether it ever reported; `gpu_id` is null where the entry identifies none.

    `state` is `lost` where the driver counts the gpu and says that it cannot be used: it is then missing.
    """

    gpu_id: str | None
    device: str | None
    index: int | None
    pci_bus_id: str | None
    state: str | None
    reported: bool


class Roster(Answer):
    """All gpus that the newest complete run of the node listed."""

    seen: datetime | None
    report_id: UUID
    gpus: tuple[RosterEntry, ...]


class NodeAnswer(Answer):
    """
    One node: its gpus, what it reported about itself, and which gpus are missing.

    `missing` are gpus that reported from here and that a newer complete roster does not list, or lists as lost, and
    those that the inventory names and nobody ever saw; without a roster or an inventory nothing is concluded. `unnamed`
    counts what the inventory expects beyond that. `never_reported` is set for a node that only the inventory knows.
    `worst` is the id of the gpu that is worst off; `stragglers` is what a job over the node loses to its slowest gpu,
    in each roof. `reports` are those about the node as a whole, newest first. Verdicts are those of now,
    `evaluated_as_of` the oldest of the evaluations that they come from.
    """

    cluster: str
    name: str
    never_reported: bool
    labels: dict[str, str]
    evaluated_as_of: datetime | None
    verdicts: dict[State, int]
    worst: str | None
    first_seen: datetime | None
    last_seen: datetime | None
    gpus: tuple[NodeGpu, ...]
    missing: tuple[str, ...]
    unnamed: int
    stragglers: tuple[StragglerShown, ...]
    notes: tuple[str, ...]
    roster: Roster | None
    reports: tuple[ReportSummary, ...]


class WorstGpu(Answer):
    """The gpu of a node that is worst off, by its state and then by its loss."""

    gpu_id: str
    device: str
    index: int | None
    state: State
    last_state: State | None
    since: datetime
    reason: str | None
    loss: float | None


class NodeRow(Answer):
    """
    One node of the fleet.

    `gpus` counts those that are there and those that are missing. `verdicts` counts them by state; a node that never
    reported has none and is `never_reported`. `action_needed` counts gpus that are ill whatever their rates are.
    """

    cluster: str
    name: str
    rack: str | None
    gpus: int
    devices: dict[str, int]
    verdicts: dict[State, int]
    worst: WorstGpu | None
    missing: tuple[str, ...]
    unnamed: int
    never_reported: bool
    last_seen: datetime | None
    action_needed: dict[HealthCode, int]


class NodeList(Answer):
    """Nodes by cluster and name, as they are now."""

    as_of: datetime
    nodes: tuple[NodeRow, ...]
    next: str | None


def node_answer(record: NodeRecord, absences: Sequence[AbsenceShown]) -> NodeAnswer:
    """A node with its gpus, the newest reports about itself, its roster, and what follows from them."""
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
        verdicts=by_state(own.verdict.state for own in record.verdicts.values()),
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


def by_state(states: Iterable[State]) -> dict[State, int]:
    """How many gpus are in each state, in the order of the states."""
    counts = Counter(states)
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
    never_seen = [gpu_id for gpu_id, own in record.verdicts.items() if own.verdict.is_gone and gpu_id not in here]
    return [*(gpu.gpu_id for gpu in gpus if gpu.missing), *sorted(never_seen)]


def _stragglers(record: NodeRecord) -> Iterable[StragglerShown]:
    """What a job over the node's gpus loses to the slowest, in each of their roofs."""
    jobs: dict[tuple[RoofName, Conditions], list[JobGpu]] = defaultdict(list)
    units: dict[RoofName, str] = {}
    # What is known may be gone as well, whatever it would be called.
    gone = {own.gpu.identity for own in record.gpus if _is_missing(own.gpu, record)}
    for own in record.verdicts.values():
        if not own.verdict.is_gone and own.verdict.gpu_id not in gone:
            for judged in own.verdict.roofs:
                if judged.recent:
                    jobs[judged.roof, judged.conditions].append(JobGpu(own.verdict.gpu_id, judged.value))
                    units[judged.roof] = judged.unit
    for (roof, conditions), workers in jobs.items():
        if len(workers) >= FEWEST_GPUS:
            yield straggler(Job("node", *record.name, roof, units[roof], conditions, workers))


def _node_gpu(own: GpuOnNode, record: NodeRecord) -> NodeGpu:
    gpu, latest, said = own.gpu, own.latest, record.verdicts.get(own.gpu.identity)
    return shape_of(
        NodeGpu,
        latest,
        gpu_id=gpu.identity,
        device=own.device,
        index=gpu.gpu_index,
        pci_bus_id=gpu.pci_bus_id,
        mig_profile=gpu.mig_profile,
        partition=gpu.partition,
        missing=_is_missing(gpu, record),
        retired=gpu.identity in record.retired,
        verdict=None if said is None else verdict_shown(*said),
    )


def _is_missing(gpu: Gpu, record: NodeRecord) -> bool:
    """
    Whether a newer complete roster of its node no longer lists a gpu, or lists it as lost.

    An incomplete one would prove nothing.

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
    entries = tuple(
        RosterEntry(**{"state": None, **entry}, reported=entry["gpu_id"] in record.reported) for entry in node.roster
    )
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


def trouble(state: State, last_state: State | None, loss: float | None) -> tuple[int, float]:
    """Key by which verdicts come worst first; a slow gpu that nobody measured since is slow before it is stale."""
    said = {state, what_is_said(state, last_state)}
    return min(map(WORST_FIRST.index, said)), -(loss or 0.0)
