"""
Explanations of a slow gpu: since when (onset), and why (reasons ranked, causes shared by a node or a rack).

The onset is read from the gpu's runs, all held against today's limits as for the accusation itself. So it depends
neither on when somebody looked nor on any earlier evaluation.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evaluation import Evaluation
from fleetridge_server.engine.evidence import Factors, NodeName
from fleetridge_server.engine.fast_dataclass import json_dataclass
from fleetridge_server.engine.gpu_state import ACCUSING
from fleetridge_server.engine.groups import Level, level_name
from fleetridge_server.engine.peer_readings import Peers, peers_of
from fleetridge_server.engine.reasons import own_reasons, reasons
from fleetridge_server.engine.remedies import (
    OF_PLACE,
    RANK,
    Circumstances,
    Reason,
    ReasonCode,
    SharedCause,
    SharedLoss,
    may_be_shared,
    shared_cause,
)
from fleetridge_server.engine.slow_places import PlaceVerdict, RackName
from fleetridge_server.engine.values import Member, Run, is_link
from fleetridge_server.engine.verdict import PlaceWord, Verdict
from fleetridge_server.engine.wording import reading_words, value_words


@json_dataclass
class SettingChange:
    """A setting or version that changed between two runs of a gpu, as people write it."""

    factor: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Onset:
    """
    Since when a gpu has been slow in one roof.

    Attributes:
        since: oldest run of the newest unbroken streak of runs beyond the limit; earlier where the gpu's drift shows
            older runs than are looked at.
        is_bound: no older run is known that lies inside, so that it is slow since then or before.
        streak: runs in that streak.
        inside: runs inside the limit that are newer than the streak.
        beyond: runs beyond the limit in all.
        runs: that were looked at.
        changes: settings that are known to have changed with the first run of the streak.
    """

    since: datetime
    is_bound: bool
    streak: int
    inside: int
    beyond: int
    runs: int
    changes: tuple[SettingChange, ...] = ()


def onset(verdict: Verdict, drift: Drift | None = None) -> Onset | None:
    """
    Since when a gpu has been slow; None where none of its runs lies beyond the limit.

    Args:
        verdict: on one roof.
        drift: of the gpu in this roof, which looks further back than the runs do.
    """
    limits, runs = verdict.limits, verdict.member.runs
    beyond = [limits.has_verdict and limits.is_beyond(run.value) for run in runs]
    if not any(beyond):
        return None
    start = beyond.index(True)
    streak = len(list(takewhile(bool, beyond[start:])))
    end = start + streak
    found = Onset(
        since=runs[end - 1].report.ordered_at,
        is_bound=end == len(runs),
        streak=streak,
        inside=start,
        beyond=sum(beyond),
        runs=len(runs),
        changes=() if end == len(runs) else tuple(_changes(runs[end], runs[end - 1])),
    )
    return found if not found.is_bound or drift is None else _looked_further_back(found, drift, verdict)


def streak_words(found: Onset) -> str:
    """In which runs a gpu was slow and since when: "in each of its newest 3 runs, since 2026-01-05 12:00 UTC"."""
    since = since_words(found.since, is_bound=found.is_bound, changes=found.changes)
    if found.inside:
        newest = (
            "the newest, slow before that" if found.inside == 1 else f"the newest {found.inside}, slow before those"
        )
        return f"in {found.beyond} of its newest {found.runs} runs, though not in {newest} {since}"
    where = f"in each of its newest {found.streak} runs" if found.streak > 1 else "in its newest run"
    in_all = "" if found.beyond == found.streak else f" ({found.beyond} of its newest {found.runs} in all)"
    return f"{where}{in_all}, {since}"


def since_words(since: datetime, *, is_bound: bool, changes: Sequence[SettingChange] = ()) -> str:
    """Since when, and with which change of its settings: "since … UTC, with the change of driver from 570 to 580"."""
    said = f"since {since:%Y-%m-%d %H:%M} UTC"
    if is_bound:
        return f"{said} or before"
    names = " and ".join(_change_words(own) for own in changes)
    return f"{said}, with the change of {names}" if names else said


def _change_words(change: SettingChange) -> str:
    before, after = (value_words(change.factor, value) for value in (change.before, change.after))
    return f"{reading_words(change.factor)} from {before} to {after}"


def _looked_further_back(found: Onset, drift: Drift, verdict: Verdict) -> Onset:
    """
    Onset of a gpu all of whose runs lie beyond the limit.

    One that fell from a baseline inside the limit has been slow since it fell. One whose baseline lies beyond it, and
    that did not change since, was so already when its epoch began.
    """
    if drift.baseline is None:
        return found
    if not verdict.limits.is_beyond(drift.baseline):
        has_fallen = drift.has_changed and (drift.change or 0.0) < 0
        if has_fallen and drift.onset is not None and drift.onset <= found.since:
            return replace(found, since=drift.onset, is_bound=False)
        return found
    if drift.first is not None and drift.first < found.since and not drift.has_changed:
        return replace(found, since=drift.first)
    return found


def _changes(before: Run, after: Run) -> Iterator[SettingChange]:
    """Settings that both runs know and that differ."""
    for factor, was, became in zip(Factors._fields, before.report.factors, after.report.factors, strict=True):
        if was is not None and became is not None and level_name(was) != level_name(became):
            yield SettingChange(factor, level_name(was), level_name(became))


GroupKey = tuple[Cohort, tuple[Level, ...]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reasons for one verdict, the strongest first, and since when the gpu has been slow; None where no run is."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    onset: Onset | None = None


class RankedReason(NamedTuple):
    """A reason with the verdicts that it is one for, the worst first; it is worded for the first."""

    reason: Reason
    verdicts: tuple[Verdict, ...]


def explanations(
    evaluation: Evaluation, drifts: Mapping[str, Mapping[RoofKey, Drift]] | None = None
) -> dict[str, list[Explanation]]:
    """Reasons for every accused gpu, by id; its verdicts in the order of its state, then links."""
    surroundings = _Surroundings(evaluation, drifts or {})
    return {gpu_id: found for gpu_id in evaluation.verdicts if (found := surroundings.explained(gpu_id))}


def ranked_reasons(explained: Sequence[Explanation]) -> list[RankedReason]:
    """
    Reasons of all roofs of a gpu, the strongest first; one that several roofs share once.

    What the gpu shares with its place is strongest where it is about the roof that is shown first.
    """
    first: dict[ReasonCode, Reason] = {}
    verdicts: dict[ReasonCode, list[Verdict]] = defaultdict(list)
    for explanation in explained:
        for reason in explanation.reasons:
            if reason.code not in first or (first[reason.code].is_information and not reason.is_information):
                first[reason.code] = reason
                verdicts[reason.code].insert(0, explanation.verdict)
            else:
                verdicts[reason.code].append(explanation.verdict)
    of_place = {reason.code for explanation in explained[:1] for reason in explanation.reasons} & OF_PLACE
    order = sorted(
        first,
        key=lambda code: (first[code].is_information, code not in of_place, -first[code].strength, RANK[code]),
    )
    return [RankedReason(first[code], tuple(verdicts[code])) for code in order]


def shared_causes(
    explained: Mapping[str, Sequence[Explanation]],
) -> dict[tuple[NodeName | RackName, Cohort], SharedCause | None]:
    """What the gpus of each slow node and rack have in common, by place and cohort."""
    return {
        (reason.place, explanation.verdict.cohort): reason.shared
        for own in explained.values()
        for explanation in own
        for reason in explanation.reasons
        if reason.place is not None
    }


def place_onset(slow: PlaceVerdict, explained: Mapping[str, Sequence[Explanation]]) -> Onset | None:
    """Since when a place is slow as a whole: the (lower) middle of its accused gpus; None where none is explained."""
    found = [
        own.onset
        for gpu_id in slow.gpu_ids
        for own in explained.get(gpu_id, ())
        if own.verdict.cohort == slow.cohort and own.onset is not None
    ]
    found.sort(key=lambda own: own.since)
    return found[(len(found) - 1) // 2] if found else None


class _Surroundings:
    """Groups and nodes of an evaluation; the readings of a group are looked at once, and only where needed."""

    def __init__(self, evaluation: Evaluation, drifts: Mapping[str, Mapping[RoofKey, Drift]]) -> None:
        self._evaluation = evaluation
        self._drifts = drifts
        self._slow_nodes = {(slow.place, slow.cohort): slow for slow in evaluation.nodes if slow.is_accused}
        self._slow_in_rack = {
            (gpu_id, slow.cohort): slow for slow in evaluation.racks if slow.is_accused for gpu_id in slow.gpu_ids
        }
        self._settings = {(gpu_id, slow.cohort): slow for slow in evaluation.settings for gpu_id in slow.gpu_ids}
        self._shared: dict[tuple[NodeName | RackName, Cohort], SharedLoss] = {}
        self._groups: dict[GroupKey, list[Member]] = defaultdict(list)
        self._nodes: dict[NodeName, list[Verdict]] = defaultdict(list)
        self._peers: dict[GroupKey, Peers] = {}
        # Most gpus of a group share its limits and cohort: to find the group by these takes a fifth of the time.
        groups: dict[tuple[int, int], list[Member]] = {}
        for verdicts in evaluation.verdicts.values():
            for verdict in verdicts:
                member = verdict.member
                shared = id(verdict.limits), id(member.cohort)
                group = groups.get(shared)
                if group is None:
                    group = groups[shared] = self._groups[_group_key(verdict)]
                group.append(member)
                node = member.runs[0].report.node
                if node is not None:
                    self._nodes[node].append(verdict)

    def explained(self, gpu_id: str) -> list[Explanation]:
        """Reasons for what one gpu is accused of; none for a gpu that is not."""
        own = self._evaluation.verdicts[gpu_id]
        state = self._evaluation.states.get(gpu_id)
        if state is None:
            return []
        drifted = state.drifted if (state.last_state or state.state) in ACCUSING else ()
        accused = [verdict for verdict in own if verdict.is_accused]
        if not accused and not drifted:
            return []
        explained = [
            *state.accused,
            *(verdict for verdict in own if verdict.cohort.roof in drifted and not verdict.is_accused),
            *(verdict for verdict in accused if is_link(verdict.cohort.roof)),
        ]
        return [self._explanation(verdict, self._around(verdict, own)) for verdict in explained]

    def _explanation(self, verdict: Verdict, around: Circumstances) -> Explanation:
        found = reasons(verdict, self._peers_of(_group_key(verdict)), around)
        return Explanation(verdict, tuple(found), onset(verdict, around.drift))

    def _peers_of(self, key: GroupKey) -> Peers:
        if key not in self._peers:
            self._peers[key] = peers_of(self._groups[key])
        return self._peers[key]

    def _around(self, verdict: Verdict, own: Sequence[Verdict]) -> Circumstances:
        node = verdict.member.newest.report.node
        roof = verdict.cohort.roof
        return Circumstances(
            setting=self._settings.get((verdict.gpu_id, verdict.cohort)),
            slow_node=None if node is None else self._loss("node", self._slow_nodes.get((node, verdict.cohort))),
            slow_rack=self._loss("rack", self._slow_in_rack.get((verdict.gpu_id, verdict.cohort))),
            other_dtypes=[
                other
                for other in own
                if other.cohort.roof.kind == roof.kind
                and other.cohort.roof.dtype != roof.dtype
                and other.limits.has_verdict
            ],
            neighbours=[]
            if node is None
            else [
                other
                for other in self._nodes[node]
                if other.cohort == verdict.cohort and other.gpu_id != verdict.gpu_id
            ],
            drift=self._drifts.get(verdict.gpu_id, {}).get(roof),
        )

    def _loss(self, word: PlaceWord, slow: PlaceVerdict | None) -> SharedLoss | None:
        """A place that is slow as a whole, with what its gpus have in common."""
        if slow is None:
            return None
        key = slow.place, slow.cohort
        if key not in self._shared:
            causes = [self._causes(gpu_id, slow.cohort) for gpu_id in slow.gpu_ids]
            self._shared[key] = SharedLoss(slow, shared_cause(word, causes))
        return self._shared[key]

    def _causes(self, gpu_id: str, cohort: Cohort) -> list[Reason]:
        return [
            reason
            for verdict in self._evaluation.verdicts[gpu_id]
            if verdict.cohort == cohort
            for reason in own_reasons(verdict, self._peers_of(_group_key(verdict)))
            if may_be_shared(reason)
        ]


def _group_key(verdict: Verdict) -> GroupKey:
    return verdict.cohort, verdict.limits.levels
