"""What a reason consists of, and what is known beside the readings that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fleetridge_server.verdict.drift import Drift
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.facts import Fact
from fleetridge_server.verdict.nodes import RackName, SlowTogether
from fleetridge_server.verdict.remedies import REMEDIES, ReasonCode
from fleetridge_server.verdict.verdicts import Verdict

PlaceWord = Literal["node", "rack"]


@dataclass(frozen=True, slots=True)
class SharedCause:
    """
    A cause that more than half of the gpus of a slow place show.

    Attributes:
        gpus: that show it; of: gpus of the place.
        text: "8 of 8 gpus held back by SW thermal slowdown".
        facts: medians over the gpus that show it, beside the peers' medians.
        next_step: for the place.
    """

    code: ReasonCode
    gpus: int
    of: int
    text: str
    facts: tuple[Fact, ...]
    next_step: str


@dataclass(frozen=True, slots=True)
class Reason:
    """
    One reason.

    Attributes:
        text: a sentence.
        next_step: for an operator.
        facts: readings that it rests on.
        is_information: worth knowing, but it cannot slow this roof, or not by so much.
        noun: of the first fact, where the sentence is made of that.
        place: that shares the loss, where the reason says so; shared: what its gpus have in common.
        step: what an operator does next, where it is not what the kind of reason says.
    """

    code: ReasonCode
    text: str
    facts: tuple[Fact, ...] = ()
    is_information: bool = False
    noun: str = ""
    place: NodeName | RackName | None = None
    shared: SharedCause | None = None
    step: str | None = None

    @property
    def is_cause(self) -> bool:
        """Whether it explains the loss by itself."""
        return REMEDIES[self.code].is_cause and not self.is_information

    @property
    def next_step(self) -> str:
        """What an operator does next."""
        return REMEDIES[self.code].next_step if self.step is None else self.step


@dataclass(frozen=True, slots=True)
class SharedLoss:
    """A node or rack that is slow as a whole in one roof, and what its gpus have in common, if anything."""

    slow: SlowTogether
    cause: SharedCause | None = None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """
    What is known beside the readings of one verdict.

    Attributes:
        slow_node, slow_rack: where all gpus of the node, or the rack, are slow in this roof.
        other_dtypes: verdicts of the gpu in other dtypes of the same kind.
        neighbours: verdicts of the node's other gpus in this roof.
        drift: of the gpu in this roof.
    """

    slow_node: SharedLoss | None = None
    slow_rack: SharedLoss | None = None
    other_dtypes: Sequence[Verdict] = ()
    neighbours: Sequence[Verdict] = ()
    drift: Drift | None = None
