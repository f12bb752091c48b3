"""From nodes and what is said of their gpus to the rows of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fleetridge_server.answer.node_schemas import NodeRow, WorstGpu
from fleetridge_server.answer.place_schemas import AbsenceShown
from fleetridge_server.evaluation.read import VerdictSummary
from fleetridge_server.store.fleet_nodes import FleetNode, SaidOfGpu
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.state import STATES, State

RACK = "rack"

# For people who look for trouble: what is gone and what is slow before what nobody measured.
_WORST_FIRST: tuple[State, ...] = (
    "missing",
    "outlier",
    "drifted",
    "implausible",
    "suspect",
    "unmeasured",
    "contended",
    "stale",
    "insufficient_peers",
    "ok",
)


def node_row(node: FleetNode, absences: Sequence[AbsenceShown]) -> NodeRow:
    """
    One node of a list.

    Args:
        node: with its gpus.
        absences: what the newest evaluations miss on it.
    """
    said = [gpu.said for gpu in node.gpus if gpu.said is not None]
    counts = Counter(head.state for head in said)
    return NodeRow(
        cluster=node.name.cluster,
        name=node.name.name,
        rack=None if node.row is None else node.row.labels.get(RACK),
        gpus=len(node.gpus),
        devices=dict(sorted(Counter(gpu.device for gpu in node.gpus).items())),
        verdicts={state: counts[state] for state in STATES if counts[state]},
        worst=worst_of(node.gpus),
        missing=tuple(sorted(head.gpu_id for head in said if head.state == "missing")),
        unnamed=sum(absence.unnamed for absence in absences),
        never_reported=node.row is None,
        last_seen=None if node.row is None else node.row.last_seen,
    )


def absences_by_node(absences: Iterable[AbsenceShown]) -> Mapping[NodeName, list[AbsenceShown]]:
    """What is missing from each node, over all devices."""
    found: dict[NodeName, list[AbsenceShown]] = {}
    for absence in absences:
        found.setdefault(NodeName(absence.cluster, absence.node), []).append(absence)
    return found


def worst_of(gpus: Iterable[SaidOfGpu]) -> WorstGpu | None:
    """The gpu that is worst off; None where nothing is said of any."""
    worst = min(((gpu, gpu.said) for gpu in gpus if gpu.said is not None), key=_trouble, default=None)
    if worst is None:
        return None
    gpu, said = worst
    return WorstGpu(
        gpu_id=gpu.gpu_id,
        device=gpu.device,
        index=gpu.index,
        state=said.state,
        last_state=said.last_state,
        since=said.since,
        reason=said.reason,
        loss=said.loss,
    )


def trouble(state: State, last_state: State | None, loss: float | None) -> tuple[int, float]:
    """Key by which verdicts come worst first; a slow gpu that nobody measured since is slow before it is stale."""
    known = [_WORST_FIRST.index(said) for said in (state, last_state) if said is not None]
    return min(known), -(loss or 0.0)


def _trouble(judged: tuple[SaidOfGpu, VerdictSummary]) -> tuple[int, float, str]:
    """Key by which gpus come worst first."""
    gpu, said = judged
    return *trouble(said.state, said.last_state, said.loss), gpu.gpu_id
