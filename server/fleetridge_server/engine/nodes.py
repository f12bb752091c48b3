"""
Nodes and racks as a whole: slow ones, missing gpus, and the cost of the slowest gpu to a job.

Power, cooling and settings belong to a node: where all its gpus are slow together the node is named, once. Missing gpus
follow from rosters and the inventory. A synchronous job runs at the pace of its slowest gpu: with n gpus of rates r it
gets n·min(r) of the sum of r.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.gpu_state import MarkScope
from fleetridge_server.engine.rule import NODE_FEWEST_GPUS, NODE_GATE_PART, NODE_LARGEST_SHARE, RACK_FEWEST_NODES
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.verdict import Verdict


class RackName(NamedTuple):
    """A rack by the nodes' reserved label, within its cluster."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class SlowTogether:
    """A node or a rack all of whose gpus (worst first) are slow in one roof, by the median of their losses."""

    place: NodeName | RackName
    cohort: Cohort
    loss: float
    gpu_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeRoster:
    """
    Gpus of a node as its driver lists them, or as people expect them.

    Only from a complete list, from which nothing hid gpus, a gpu can be missing.
    """

    node: NodeName
    at: datetime
    gpu_ids: frozenset[str]
    complete: bool


@dataclass(frozen=True, slots=True)
class ExpectedNode:
    """A node of the inventory: its gpus by id, or at least how many they are."""

    node: NodeName
    gpu_ids: frozenset[str] = frozenset()
    gpu_count: int | None = None


@dataclass(frozen=True, slots=True)
class Absence:
    """What is missing from a node: known gpus, and how many more the inventory counts than anybody has seen."""

    node: NodeName
    gpu_ids: tuple[str, ...]
    unnamed: int = 0
    never_reported: bool = False


def slow_nodes(verdicts: Iterable[Verdict]) -> list[SlowTogether]:
    """Nodes whose gpus are all slow in one roof, worst first."""
    groups: dict[tuple[NodeName, Cohort], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        node = verdict.member.newest.report.node
        if node is not None and verdict.limits.has_verdict:
            groups[node, verdict.cohort].append(verdict)
    found = [
        _together(node, cohort, group)
        for (node, cohort), group in groups.items()
        if len(group) >= NODE_FEWEST_GPUS and _is_slow_together(group)
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
        if len(names) >= RACK_FEWEST_NODES and len(parts) == len(names):
            gpu_ids = tuple(gpu_id for part in parts for gpu_id in part.gpu_ids)
            found.append(SlowTogether(rack, cohort, median(part.loss for part in parts), gpu_ids))
    return sorted(found, key=lambda rack: (-rack.loss, rack.place))


def absences(
    histories: Mapping[str, Sequence[JudgedReport]],
    rosters: Iterable[NodeRoster],
    inventory: Iterable[ExpectedNode] = (),
    is_retired: Callable[[MarkScope], bool] = lambda _place: False,
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
        entry = expected.get(node, ExpectedNode(node))
        absent = gone[node] | (entry.gpu_ids - listed - last.keys())
        missing = [own for own in sorted(absent) if not is_retired(MarkScope(own, node, racks.get(node)))]
        unnamed = max(0, (entry.gpu_count or 0) - len(present[node] | absent))
        is_expected = not is_retired(MarkScope(None, node, racks.get(node)))
        if is_expected and (missing or unnamed or node not in heard_of):
            found.append(Absence(node, tuple(missing), unnamed, node not in heard_of))
    return found


def _lacks(roster: NodeRoster | None, newest: JudgedReport) -> bool:
    """Whether a roster may say that a gpu is gone: it is complete, and newer than what the gpu last reported."""
    return roster is not None and roster.complete and roster.at > newest.ordered_at


def _newest_rosters(rosters: Iterable[NodeRoster]) -> dict[NodeName, NodeRoster]:
    newest: dict[NodeName, NodeRoster] = {}
    for roster in rosters:
        held = newest.get(roster.node)
        if held is None or (roster.complete, roster.at) > (held.complete, held.at):
            newest[roster.node] = roster
    return newest


def _is_slow_together(group: Sequence[Verdict]) -> bool:
    """Whether all are slow, beside peers most of whom stand elsewhere."""
    gate = group[0].limits.gate
    losses = [verdict.loss for verdict in group]
    if min(losses) < NODE_GATE_PART * gate or median(losses) < gate:
        return False
    return len(group) <= NODE_LARGEST_SHARE * group[0].limits.pooled_n


def _together(node: NodeName, cohort: Cohort, group: Sequence[Verdict]) -> SlowTogether:
    ordered = sorted(group, key=lambda verdict: (-verdict.loss, verdict.gpu_id))
    return SlowTogether(
        node, cohort, median(verdict.loss for verdict in group), tuple(verdict.gpu_id for verdict in ordered)
    )


@dataclass(frozen=True, slots=True)
class WithoutWorst:
    """
    The same job without its worst gpus.

    Attributes:
        left_out: how many.
        rate: of the rest, at the pace of its slowest, in the unit of the values.
        gain: over the rate of all, less 1; negative where leaving them out costs more than it wins.
    """

    left_out: int
    rate: float
    gain: float


@dataclass(frozen=True, slots=True)
class StragglerCost:
    """
    What a synchronous job over a group loses to its slowest gpu.

    Attributes:
        n: gpus.
        slowest: value of the slowest.
        loss: part of the sum of all rates that waiting costs.
        without: the same job without the worst 1, 2, … gpus.
    """

    n: int
    slowest: float
    loss: float
    without: tuple[WithoutWorst, ...]

    @property
    def best(self) -> WithoutWorst | None:
        """What wins most back, None where leaving out any costs more."""
        best = max(self.without, key=lambda option: option.gain, default=None)
        return best if best is not None and best.gain > 0 else None


# A node's worth.
_MOST_LEFT_OUT = 8


def straggler_cost(values: Sequence[float]) -> StragglerCost:
    """Cost of the slowest gpu of a group, by one value above 0 per gpu. Raises ValueError: no values."""
    if not values:
        raise ValueError("no values: ask for the cost of a group that has gpus")
    ordered = sorted(values)
    n = len(ordered)
    rate = n * ordered[0]
    without = tuple(
        WithoutWorst(left_out, (n - left_out) * ordered[left_out], (n - left_out) * ordered[left_out] / rate - 1)
        for left_out in range(1, min(_MOST_LEFT_OUT, n - 1) + 1)
    )
    return StragglerCost(n, ordered[0], 1 - rate / sum(ordered), without)
