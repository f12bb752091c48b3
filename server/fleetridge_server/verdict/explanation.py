"""Reasons for every gpu of an evaluation that is accused, with what its node, rack and history add."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Cohort
from fleetridge_server.verdict.drift import Drift
from fleetridge_server.verdict.evaluation import Evaluation
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.levels import Level
from fleetridge_server.verdict.members import Member, is_link
from fleetridge_server.verdict.peers import Peers, peers_of
from fleetridge_server.verdict.reasons import Circumstances, Reason, reasons
from fleetridge_server.verdict.state import ACCUSING
from fleetridge_server.verdict.verdicts import Verdict

GroupKey = tuple[Cohort, tuple[Level, ...]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reasons for one verdict, the strongest first."""

    verdict: Verdict
    reasons: tuple[Reason, ...]


def explanations(
    evaluation: Evaluation, drifts: Mapping[str, Mapping[RoofKey, Drift]] | None = None
) -> dict[str, list[Explanation]]:
    """
    Reasons for every accused gpu, by id; its verdicts in the order of its state, then links.

    Args:
        evaluation: of one device.
        drifts: that it was made with.
    """
    surroundings = _Surroundings(evaluation, drifts or {})
    return {gpu_id: found for gpu_id in evaluation.verdicts if (found := surroundings.explained(gpu_id))}


class _Surroundings:
    """Groups and nodes of an evaluation; the readings of a group are looked at once, and only where needed."""

    def __init__(self, evaluation: Evaluation, drifts: Mapping[str, Mapping[RoofKey, Drift]]) -> None:
        self._evaluation = evaluation
        self._drifts = drifts
        self._slow_nodes = {(slow.place, slow.cohort) for slow in evaluation.nodes}
        self._slow_in_rack = {(gpu_id, slow.cohort) for slow in evaluation.racks for gpu_id in slow.gpu_ids}
        self._groups: dict[GroupKey, list[Member]] = defaultdict(list)
        self._nodes: dict[tuple[NodeName, Cohort], list[Verdict]] = defaultdict(list)
        self._peers: dict[GroupKey, Peers] = {}
        for verdicts in evaluation.verdicts.values():
            for verdict in verdicts:
                self._groups[_group_key(verdict)].append(verdict.member)
                node = verdict.member.newest.report.node
                if node is not None:
                    self._nodes[node, verdict.cohort].append(verdict)

    def explained(self, gpu_id: str) -> list[Explanation]:
        """Reasons for what one gpu is accused of; none for a gpu that is not."""
        own = self._evaluation.verdicts[gpu_id]
        state = self._evaluation.states.get(gpu_id)
        if state is None:
            return []
        drifted = state.drifted if (state.last_state or state.state) in ACCUSING else ()
        told = [
            *state.accused,
            *(verdict for verdict in own if verdict.cohort.roof in drifted and not verdict.is_accused),
            *(verdict for verdict in own if verdict.is_accused and is_link(verdict.cohort.roof)),
        ]
        return [
            Explanation(
                verdict, tuple(reasons(verdict, self._peers_of(_group_key(verdict)), self._around(verdict, own)))
            )
            for verdict in told
        ]

    def _peers_of(self, key: GroupKey) -> Peers:
        if key not in self._peers:
            self._peers[key] = peers_of(self._groups[key])
        return self._peers[key]

    def _around(self, verdict: Verdict, own: Sequence[Verdict]) -> Circumstances:
        node = verdict.member.newest.report.node
        roof = verdict.cohort.roof
        return Circumstances(
            in_slow_node=(node, verdict.cohort) in self._slow_nodes,
            in_slow_rack=(verdict.gpu_id, verdict.cohort) in self._slow_in_rack,
            other_dtypes=[
                other
                for other in own
                if other.cohort.roof.kind == roof.kind
                and other.cohort.roof.dtype != roof.dtype
                and other.yardstick.has_verdict
            ],
            neighbours=[]
            if node is None
            else [other for other in self._nodes[node, verdict.cohort] if other.gpu_id != verdict.gpu_id],
            drift=self._drifts.get(verdict.gpu_id, {}).get(roof),
        )


def _group_key(verdict: Verdict) -> GroupKey:
    return verdict.cohort, verdict.yardstick.levels
