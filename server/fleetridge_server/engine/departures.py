"""
Gpus that left the fleet without anybody saying so: replaced in their slot, or silent for too long.

Nobody misses them, they move no median, and they have no state; who they were and who took their place is said once.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from fleetridge_server.engine import rule
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.nodes import NodeRoster

DepartureKind = Literal["replaced", "silent"]

_SLICE_PREFIX = "MIG-"


@dataclass(frozen=True, slots=True)
class Departure:
    """
    A gpu that is in the fleet no more.

    Attributes:
        kind: `replaced`, as its slot reports another; `silent`, as nothing was heard of it for too long.
        last_seen: time of its newest report.
        successors: gpus that its node lists in its slot since.
    """

    gpu_id: str
    kind: DepartureKind
    last_seen: datetime
    node: NodeName | None = None
    successors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeLists:
    """
    What nodes list of their gpus, beside what the gpus reported.

    Attributes:
        histories: reports of each gpu, newest first.
        rosters: the newest of each node.
        slots: bus address of each gpu, as far as it is known.
    """

    histories: Mapping[str, Sequence[JudgedReport]]
    rosters: Mapping[NodeName, NodeRoster]
    slots: Mapping[str, str | None] = field(default_factory=dict)

    def successors(self, gpu_id: str) -> tuple[str, ...]:
        """Gpus that the node of a gpu lists at its bus address since it reported last, and without it."""
        newest, slot = self.histories[gpu_id][0], self.slots.get(gpu_id)
        roster = None if newest.node is None else self.rosters.get(newest.node)
        if roster is None or not roster.complete or slot is None or roster.at <= newest.ordered_at:
            return ()
        if gpu_id in roster.gpu_ids:
            return ()
        return tuple(sorted(other for other, at in roster.slots.items() if at == slot and other != gpu_id))

    def of_namesakes(self) -> frozenset[str]:
        """
        Cards that are hidden by another host of their node's name, of which nothing follows.

        A card's slot holds one that reported before the card did last; or the newest roster lists none of the two or
        more cards that the node had before.
        """
        cards = [gpu_id for gpu_id, own in self.histories.items() if own and not gpu_id.startswith(_SLICE_PREFIX)]
        before: dict[NodeName, list[str]] = defaultdict(list)
        for gpu_id in cards:
            node = self.histories[gpu_id][0].node
            roster = None if node is None else self.rosters.get(node)
            if roster is not None and self.histories[gpu_id][-1].ordered_at < roster.at - rule.NODE_RUN_WITHIN:
                before[roster.node].append(gpu_id)
        lists_none = {
            node
            for node, gpu_ids in before.items()
            if len(gpu_ids) > 1 and self.rosters[node].gpu_ids and self.rosters[node].gpu_ids.isdisjoint(gpu_ids)
        }
        return frozenset(
            gpu_id for gpu_id in cards if self.histories[gpu_id][0].node in lists_none or self._shares_its_slot(gpu_id)
        )

    def _shares_its_slot(self, gpu_id: str) -> bool:
        newest = self.histories[gpu_id][0].ordered_at
        others = (self.histories.get(other) for other in self.successors(gpu_id))
        return any(own and own[-1].ordered_at <= newest for own in others)


def retirement_age(schedule: timedelta | None) -> timedelta:
    """How long a gpu may be silent, by how often each should be measured, before it is in the fleet no more."""
    if schedule is None:
        return rule.RETIRED_AFTER
    return max(rule.RETIRED_AFTER_TURNS * schedule, rule.RETIRED_AFTER_AT_LEAST)


def departures(
    lists: NodeLists,
    namesakes: Collection[str] = frozenset(),
    expected: Collection[str] = frozenset(),
    schedule: timedelta | None = None,
) -> dict[str, Departure]:
    """
    Gpus that left the fleet, by id.

    One is replaced where its node lists another in its slot since it reported last. One is silent where the newest
    report of the fleet is later than its own by the `retirement_age`.

    Args:
        lists: of nodes.
        namesakes: `NodeLists.of_namesakes`.
        expected: gpus that the inventory names, which are never silent.
        schedule: how often each gpu should be measured.
    """
    last = {gpu_id: own[0] for gpu_id, own in lists.histories.items() if own}
    if not last:
        return {}
    patience = retirement_age(schedule)
    newest = max(report.ordered_at for report in last.values())
    found: dict[str, Departure] = {}
    for gpu_id, report in last.items():
        successors = () if gpu_id in namesakes else lists.successors(gpu_id)
        if successors:
            found[gpu_id] = Departure(gpu_id, "replaced", report.ordered_at, report.node, successors)
        elif newest - report.ordered_at > patience and gpu_id not in expected:
            found[gpu_id] = Departure(gpu_id, "silent", report.ordered_at, report.node)
    return found
