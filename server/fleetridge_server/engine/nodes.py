"""
Nodes: gpus that are missing from them, and the cost of the slowest gpu to a job.

Missing gpus follow from rosters, from what the driver says of a card that it lost, and from the inventory. A
synchronous job runs at the pace of its slowest gpu: with n gpus of rates r it gets n·min(r) of the sum of r.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.gpu_state import MarkScope
from fleetridge_server.engine.rule import LOST_REASONS


@dataclass(frozen=True, slots=True)
class NodeRoster:
    """
    Gpus of a node as its driver lists them, or as people expect them.

    Only from a complete list, from which nothing hid gpus, a gpu can be missing. `slots` are bus addresses of all gpus
    listed that have one, those of other devices included.
    """

    node: NodeName
    at: datetime
    gpu_ids: frozenset[str]
    complete: bool
    slots: Mapping[str, str] = field(default_factory=dict)


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


def absences(
    histories: Mapping[str, Sequence[JudgedReport]],
    rosters: Iterable[NodeRoster],
    inventory: Iterable[ExpectedNode] = (),
    is_retired: Callable[[MarkScope], bool] = lambda _place: False,
    departed: Collection[str] = frozenset(),
    namesakes: Collection[str] = frozenset(),
) -> list[Absence]:
    """
    What is missing from each node.

    A gpu is missing where the newest complete roster of the node that it was last seen on is newer than its newest
    report and does not list it, where the driver lost it, or where the inventory names it and no report or roster does.
    What is retired is missed by nobody: of a node that the inventory counts, a retired gpu is one of those counted
    until another takes its place. What departed was replaced or is known to be gone.

    Args:
        histories: reports of each gpu, newest first, retired ones included.
        rosters: any number for each node.
        inventory: what people expect.
        is_retired: whether nobody misses what is at a place.
        departed: gpus that left the fleet (`engine.departures`).
        namesakes: those of another host of their node's name, likewise.
    """
    newest = newest_rosters(rosters)
    listed = {gpu_id for roster in newest.values() for gpu_id in roster.gpu_ids}
    last = {gpu_id: own[0] for gpu_id, own in histories.items() if own and gpu_id not in departed}
    present: dict[NodeName, set[str]] = defaultdict(set, {node: set(own.gpu_ids) for node, own in newest.items()})
    gone: dict[NodeName, set[str]] = defaultdict(set)
    for gpu_id, report in last.items():
        if report.node is not None:
            is_unlisted = gpu_id not in listed and gpu_id not in namesakes and _lacks(newest.get(report.node), report)
            is_gone = is_unlisted or is_lost(histories[gpu_id])
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


def is_lost(reports: Iterable[JudgedReport]) -> bool:
    """Whether the newest attempt on a gpu says that the driver lost it; reports come newest first."""
    newest = next((report for report in reports if report.outcome != "skipped"), None)
    return newest is not None and newest.outcome == "failed" and newest.reason in LOST_REASONS


def newest_rosters(rosters: Iterable[NodeRoster]) -> dict[NodeName, NodeRoster]:
    """The newest roster of each node; a complete one before others."""
    newest: dict[NodeName, NodeRoster] = {}
    for roster in rosters:
        held = newest.get(roster.node)
        if held is None or (roster.complete, roster.at) > (held.complete, held.at):
            newest[roster.node] = roster
    return newest


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
