"""
Nodes and racks: which are slow as a whole, and which gpus are not there.

Power, cooling and settings belong to a node. Where all its gpus are slow together the node is named, once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from fleetridge_server.compare.cohort import Cohort
from fleetridge_server.compare.stats import median
from fleetridge_server.verdict.evidence import JudgedReport, NodeName
from fleetridge_server.verdict.marks import Place
from fleetridge_server.verdict.verdicts import Verdict

# "All gpus of the node" says something from two on.
_FEWEST_GPUS = 2
_FEWEST_NODES = 2

# Beside fewer other gpus than its own, a node has no peers that could show it slow.
_LARGEST_SHARE = 0.5

# Each gpu of a slow node lies at least half a gate below its peers.
_SHARED_PART = 0.5


class RackName(NamedTuple):
    """A rack by the nodes' reserved label, within its cluster."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class SlowTogether:
    """
    A node or a rack all of whose gpus are slow in one roof.

    Attributes:
        place: the node, or the rack.
        loss: median over its gpus.
        gpu_ids: all of them, worst first.
    """

    place: NodeName | RackName
    cohort: Cohort
    loss: float
    gpu_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roster:
    """
    Gpus of a node as its driver lists them, or as people expect them.

    Attributes:
        at: when the list was made.
        complete: whether nothing hid gpus from it; only then a gpu can be missing from it.
    """

    node: NodeName
    at: datetime
    gpu_ids: frozenset[str]
    complete: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """A node of the inventory: its gpus by id, or at least how many they are."""

    node: NodeName
    gpu_ids: frozenset[str] = frozenset()
    gpu_count: int | None = None


@dataclass(frozen=True, slots=True)
class Absence:
    """
    What is missing from a node.

    Attributes:
        gpu_ids: known gpus that are not there.
        unnamed: how many more the inventory counts than anybody has seen.
        never_reported: nothing of this node was ever heard.
    """

    node: NodeName
    gpu_ids: tuple[str, ...]
    unnamed: int = 0
    never_reported: bool = False


def slow_nodes(verdicts: Iterable[Verdict]) -> list[SlowTogether]:
    """Nodes whose gpus are all slow in one roof, worst first."""
    groups: dict[tuple[NodeName, Cohort], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        node = verdict.member.newest.report.node
        if node is not None and verdict.yardstick.has_verdict:
            groups[node, verdict.cohort].append(verdict)
    found = [
        _together(node, cohort, group)
        for (node, cohort), group in groups.items()
        if len(group) >= _FEWEST_GPUS and _is_slow_together(group)
    ]
    return sorted(found, key=lambda slow: (-slow.loss, slow.place))


def slow_racks(nodes: Iterable[SlowTogether], verdicts: Iterable[Verdict]) -> list[SlowTogether]:
    """Racks all of whose nodes (two or more) are slow in one roof."""
    slow: dict[tuple[NodeName, Cohort], SlowTogether] = {(NodeName(*node.place), node.cohort): node for node in nodes}
    if not slow:
        return []
    members: dict[tuple[RackName, Cohort], set[NodeName]] = defaultdict(set)
    for verdict in verdicts:
        report = verdict.member.newest.report
        if report.node is not None and report.rack is not None:
            members[RackName(report.node.cluster, report.rack), verdict.cohort].add(report.node)
    found: list[SlowTogether] = []
    for (rack, cohort), names in members.items():
        parts = [slow[name, cohort] for name in sorted(names) if (name, cohort) in slow]
        if len(names) >= _FEWEST_NODES and len(parts) == len(names):
            gpu_ids = tuple(gpu_id for part in parts for gpu_id in part.gpu_ids)
            found.append(SlowTogether(rack, cohort, median(part.loss for part in parts), gpu_ids))
    return sorted(found, key=lambda rack: (-rack.loss, rack.place))


def absences(
    histories: Mapping[str, Sequence[JudgedReport]],
    rosters: Iterable[Roster],
    inventory: Iterable[Expected] = (),
    is_retired: Callable[[Place], bool] = lambda _place: False,
) -> list[Absence]:
    """
    What is missing from each node.

    A gpu is missing where the newest complete roster of the node that it was last seen on is newer than its newest
    report and does not list it, or where the inventory names it and no report or roster does. What is retired is missed
    by nobody: of a node that the inventory counts, a retired gpu is one of those counted until another takes its place.

    Args:
        histories: reports of each gpu, newest first, retired ones included.
        rosters: any number for each node.
        inventory: what people expect.
        is_retired: whether nobody misses what is at a place.
    """
    newest = _newest_rosters(rosters)
    listed = {gpu_id for roster in newest.values() for gpu_id in roster.gpu_ids}
    last = {gpu_id: own[0] for gpu_id, own in histories.items() if own}
    present: dict[NodeName, set[str]] = defaultdict(set, {node: set(own.gpu_ids) for node, own in newest.items()})
    gone: dict[NodeName, set[str]] = defaultdict(set)
    for gpu_id, report in last.items():
        if report.node is not None:
            is_gone = gpu_id not in listed and _lacks(newest.get(report.node), report)
            (gone if is_gone else present)[report.node].add(gpu_id)
    racks = {report.node: report.rack for report in last.values()}
    heard_of = {*newest, *racks}
    expected = {entry.node: entry for entry in inventory}
    found: list[Absence] = []
    for node in sorted({*gone, *expected}):
        entry = expected.get(node, Expected(node))
        absent = gone[node] | (entry.gpu_ids - listed - last.keys())
        missing = [own for own in sorted(absent) if not is_retired(Place(own, node, racks.get(node)))]
        unnamed = max(0, (entry.gpu_count or 0) - len(present[node] | absent))
        is_expected = not is_retired(Place(None, node, racks.get(node)))
        if is_expected and (missing or unnamed or node not in heard_of):
            found.append(Absence(node, tuple(missing), unnamed, node not in heard_of))
    return found


def _lacks(roster: Roster | None, newest: JudgedReport) -> bool:
    """Whether a roster may say that a gpu is gone: it is complete, and newer than what the gpu last reported."""
    return roster is not None and roster.complete and roster.at > newest.ordered_at


def _newest_rosters(rosters: Iterable[Roster]) -> dict[NodeName, Roster]:
    newest: dict[NodeName, Roster] = {}
    for roster in rosters:
        held = newest.get(roster.node)
        if held is None or (roster.complete, roster.at) > (held.complete, held.at):
            newest[roster.node] = roster
    return newest


def _is_slow_together(group: Sequence[Verdict]) -> bool:
    """Whether all are slow, beside peers most of whom stand elsewhere."""
    gate = group[0].yardstick.gate
    losses = [verdict.loss for verdict in group]
    if min(losses) < _SHARED_PART * gate or median(losses) < gate:
        return False
    return len(group) <= _LARGEST_SHARE * group[0].yardstick.pooled_n


def _together(node: NodeName, cohort: Cohort, group: Sequence[Verdict]) -> SlowTogether:
    ordered = sorted(group, key=lambda verdict: (-verdict.loss, verdict.gpu_id))
    return SlowTogether(
        node, cohort, median(verdict.loss for verdict in group), tuple(verdict.gpu_id for verdict in ordered)
    )
