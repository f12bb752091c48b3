"""
What people decided about an accusation, and how long it holds.

A mark changes no number: the verdict stays as it is, and is excused. A gpu that becomes clearly worse than it was when
it was marked is accused again, for that is another fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fleetridge_server.verdict.evidence import NodeName

MarkKind = Literal["false_positive", "accepted", "retired"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gpu is, as far as marks and findings care; without an id it is the node itself."""

    gpu_id: str | None
    node: NodeName | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """
    A decision of a person.

    Attributes:
        kind: `false_positive` (nothing is wrong), `accepted` (wrong on purpose), `retired` (gone for good).
        reason: in words.
        made_at: from when on it holds.
        until: end; None for ever.
        gpu_id, node, rack, cluster: scope; all that are given must fit. A mark without any covers nothing.
        loss: that was accepted, as a fraction; None covers any.
    """

    kind: MarkKind
    reason: str
    made_at: datetime
    until: datetime | None = None
    gpu_id: str | None = None
    node: NodeName | None = None
    rack: str | None = None
    cluster: str | None = None
    loss: float | None = None

    def covers(self, place: Place, as_of: datetime) -> bool:
        """Whether it holds at a time for a gpu at a place."""
        if as_of < self.made_at or (self.until is not None and as_of >= self.until):
            return False
        cluster = None if place.node is None else place.node.cluster
        scope = (
            (self.gpu_id, place.gpu_id),
            (self.node, place.node),
            (self.rack, place.rack),
            (self.cluster, cluster),
        )
        asked = [(wanted, found) for wanted, found in scope if wanted is not None]
        return bool(asked) and all(wanted == found for wanted, found in asked)

    def excuses(self, loss: float, gate: float) -> bool:
        """Whether a loss is the one that was marked, give or take what counts as a difference."""
        return self.kind != "retired" and (self.loss is None or loss <= self.loss + gate)


def covering(marks: Iterable[Mark], place: Place, as_of: datetime) -> tuple[Mark, ...]:
    """Marks that hold for a gpu, newest first."""
    found = [mark for mark in marks if mark.covers(place, as_of)]
    return tuple(sorted(found, key=lambda mark: mark.made_at, reverse=True))


def is_retired(marks: Iterable[Mark]) -> bool:
    """Whether one of the marks takes a gpu out of the fleet."""
    return any(mark.kind == "retired" for mark in marks)


def retirement(marks: Iterable[Mark], as_of: datetime) -> Callable[[Place], bool]:
    """By which to ask whether nobody misses what is, or should be, at a place."""
    retiring = [mark for mark in marks if mark.kind == "retired"]
    return lambda place: any(mark.covers(place, as_of) for mark in retiring)


def excuse_of(marks: Iterable[Mark], loss: float, gate: float) -> Mark | None:
    """The first of the marks that excuses a loss; None where none does."""
    return next((mark for mark in marks if mark.excuses(loss, gate)), None)
