"""
Collapses of nodes: runs in which every gpu of a node fell together.

A job that waits for its input, a power cap for a minute, a node that swaps: they take a quarter or more from all gpus
of a node at once, and say nothing of any card. Such a run belongs to the node. One that stands alone is set aside, as
one that was contended is; where it goes on for an hour or more the gpus are slow, and their runs count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.values import Member, Run, values_of


@dataclass(frozen=True, slots=True)
class NodeCollapse:
    """A run of a node that was set aside in one roof: when its first gpu fell, how far, and which gpus did."""

    node: NodeName
    cohort: Cohort
    at: datetime
    loss: float
    gpu_ids: tuple[str, ...]


def without_collapses(members: Sequence[Member]) -> tuple[list[Member], list[NodeCollapse]]:
    """
    Members of a cohort without the runs that belong to their nodes, and what was set aside.

    A run fell that lies a quarter or more below the median of the cohort. The node fell where another of its gpus was
    measured within the hour, and all such fell. Runs that count all the same carry `fell_with_node`.
    """
    if not members:
        return [], []
    lowest = median(member.value for member in members) * (1 - rule.LOSS_AT_ONCE)
    nodes = _nodes_of_fallen(members, lowest)
    if not nodes:
        return list(members), []
    runs: dict[NodeName, list[tuple[str, datetime, bool]]] = defaultdict(list)
    for member in members:
        for run in member.runs:
            if run.report.node in nodes:
                runs[run.report.node].append((member.gpu_id, run.report.ordered_at, run.value <= lowest))
    kept: list[Member] = []
    fallen: list[tuple[Member, Run]] = []
    for member in members:
        flagged = [
            run.value <= lowest and run.report.node in nodes and _fell_together(member, run, runs[run.report.node])
            for run in member.runs
        ]
        own, aside = _parted(member, flagged) if any(flagged) else (member, [])
        kept.append(own)
        fallen += [(member, run) for run in aside]
    return kept, _collapses(fallen)


def _nodes_of_fallen(members: Iterable[Member], lowest: float) -> set[NodeName]:
    """Nodes of runs that fell; of most members the lowest run is asked for alone."""
    return {
        run.report.node
        for member in members
        if min(values_of(member.runs)) <= lowest
        for run in member.runs
        if run.report.node is not None and run.value <= lowest
    }


def _fell_together(member: Member, run: Run, of_node: Iterable[tuple[str, datetime, bool]]) -> bool:
    others = [
        fell
        for gpu_id, at, fell in of_node
        if gpu_id != member.gpu_id and abs(at - run.report.ordered_at) < rule.NODE_RUN_WITHIN
    ]
    return bool(others) and all(others)


def _parted(member: Member, flagged: Sequence[bool]) -> tuple[Member, list[Run]]:
    """A member with the runs that count, and those that are set aside."""
    counting: list[Run] = []
    aside: list[Run] = []
    for fell, episode in groupby(zip(member.runs, flagged, strict=True), key=lambda pair: pair[1]):
        runs = [run for run, _ in episode]
        lasted = runs[0].report.ordered_at - runs[-1].report.ordered_at
        if fell and lasted < rule.CONFIRMATIONS_APART:
            aside += runs
        else:
            counting += [run._replace(fell_with_node=fell) for run in runs]
    # A gpu of which nothing else is known is described by what there is.
    if not counting:
        return member.with_runs(tuple(run._replace(fell_with_node=True) for run in aside)), []
    return member.with_runs(tuple(counting)), aside


def _collapses(fallen: Iterable[tuple[Member, Run]]) -> list[NodeCollapse]:
    by_node: dict[NodeName, list[tuple[datetime, Member, Run]]] = defaultdict(list)
    for member, run in fallen:
        if run.report.node is not None:
            by_node[run.report.node].append((run.report.ordered_at, member, run))
    return [
        _collapse(node, together)
        for node, runs in sorted(by_node.items())
        for together in _near_in_time(sorted(runs, key=lambda own: (own[0], own[1].gpu_id)))
    ]


def _near_in_time(runs: Sequence[tuple[datetime, Member, Run]]) -> Iterator[list[tuple[datetime, Member, Run]]]:
    """Runs of a node, oldest first, by the hour that begins with one of them."""
    together: list[tuple[datetime, Member, Run]] = []
    for own in runs:
        if together and own[0] - together[0][0] >= rule.NODE_RUN_WITHIN:
            yield together
            together = []
        together.append(own)
    if together:
        yield together


def _collapse(node: NodeName, runs: Sequence[tuple[datetime, Member, Run]]) -> NodeCollapse:
    at, member, _ = runs[0]
    loss = median(1 - run.value / own.value for _, own, run in runs)
    return NodeCollapse(node, member.cohort, at, loss, tuple(sorted({own.gpu_id for _, own, _ in runs})))
