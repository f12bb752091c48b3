"""
Faults that a simulated fleet may have.

By these detection is scored: what is wrong is known. Each kind says what it is called, what it costs, when it begins,
whom it befalls and which verdict it should lead to; its signs in the readings (clocks, throttle counters, limits) are
made in `simulate.readings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FaultName = Literal[
    "power_cap", "thermal", "power_brake", "low_clock", "slow_memory", "ecc", "remapped_rows", "falling", "old_driver",
    "silent",
]  # fmt: skip

ExpectedVerdict = Literal["slow", "drifted", "contended", "missing", "ok"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a gpu, and the part of pi (of beta, for faults of memory) that it costs."""

    name: FaultName
    loss: float


# Well past the effect gate of 3 %, well below the losses that nobody could overlook.
_USUAL_LOSS = 0.08

# Fewer than so many parts of a fleet's values are not called slow by any rule; a label on them would be unfair.
_SURE_LOSS = 0.05


@dataclass(frozen=True, slots=True)
class FaultKind:
    """
    A fault by name.

    Attributes:
        what: for people.
        signs: whose readings a gpu shows; None where the readings stay sound.
        expected: what a verdict should come to.
        befalls_nodes: whether it takes whole nodes, and is counted in them.
        loss: of pi (of beta for faults of memory) where none is asked for.
        begins: part of the history after which it sets in.
        creeps: whether the loss grows from nothing to its full size.
    """

    what: str
    signs: FaultName | None
    expected: ExpectedVerdict = "slow"
    befalls_nodes: bool = False
    loss: float = _USUAL_LOSS
    begins: float = 0.0
    creeps: bool = False


FAULTS: Mapping[str, FaultKind] = {
    "power_cap": FaultKind("power limit set too low", "power_cap"),
    "thermal": FaultKind("too hot, the clock gives way", "thermal"),
    "power_brake": FaultKind("held back by the power brake signal", "power_brake"),
    "low_clock": FaultKind("lower clock for no visible reason", "low_clock"),
    "slow_memory": FaultKind("memory clock too low", "slow_memory"),
    "ecc": FaultKind("ECC differs from its peers', and memory is slower", "ecc"),
    "remapped_rows": FaultKind("memory repair waits for a reset", "remapped_rows"),
    "falling": FaultKind("rate falls within each run", "falling"),
    "old_driver": FaultKind("runs a driver older than its peers'", "old_driver"),
    "silent": FaultKind("slow, and no reading says why", "silent"),
    "drift": FaultKind("slower from day to day", "silent", expected="drifted", begins=0.4, creeps=True),
    "bad_node": FaultKind("all gpus of the node run hot and slow", "thermal", befalls_nodes=True),
    "driver_regression": FaultKind(
        "new driver halfway through, slower on purpose",
        None,
        expected="ok",
        befalls_nodes=True,
        loss=0.05,
        begins=0.5,
    ),
    "contention": FaultKind("another process uses the gpu during every run", "silent", expected="contended", loss=0.2),
    "duplicates": FaultKind("every report is sent twice", None, expected="ok", loss=0.0),
    "clock_skew": FaultKind(
        "the node's clock is a year ahead", None, expected="ok", befalls_nodes=True, loss=0.0
    ),
    "missing": FaultKind("gone from its node for the last quarter", None, expected="missing", loss=0.0, begins=0.75),
}  # fmt: skip


class FaultError(ValueError):
    """A fault that nobody can simulate; the message says which there are."""


@dataclass(frozen=True, slots=True)
class Order:
    """A fault that was asked for: how often, in gpus or whole nodes (None as usual), and how much it costs."""

    name: str
    count: int | None
    loss: float

    @property
    def kind(self) -> FaultKind:
        """What it is."""
        return FAULTS[self.name]

    def first_day(self, days: int) -> int:
        """Day of a history on which it sets in, counted from 0."""
        return int(self.kind.begins * days)

    def loss_on(self, day: int, days: int) -> float:
        """Part of the rate that it costs on a day of a history."""
        first = self.first_day(days)
        if day < first:
            return 0.0
        return self.loss * (day - first + 1) / (days - first) if self.kind.creeps else self.loss

    def signs_on(self, day: int, days: int) -> Fault | None:
        """Signs that a gpu's readings show on a day; None for sound ones."""
        loss = self.loss_on(day, days)
        return None if self.kind.signs is None or loss == 0.0 else Fault(self.kind.signs, loss)

    @property
    def label(self) -> str:
        """What a judge of verdicts may hold against them."""
        if self.kind.expected == "ok":
            return "ok_must_not_flag"
        is_sure = self.kind.expected in {"slow", "drifted"} and self.loss >= _SURE_LOSS
        return "slow_must_flag" if is_sure else "grey"


def order_of(text: str) -> Order:
    """
    Fault from its spelling on a command line, `NAME[:COUNT[:LOSS]]`, such as `thermal:2:0.08`.

    Raises:
        FaultError: no such fault, a count below 1, or a loss outside 0 to 0.9.
    """
    name, *numbers = text.strip().split(":")
    name = name.replace("-", "_")
    if name not in FAULTS or len(numbers) > 2:  # noqa: PLR2004 # count and loss
        raise FaultError(f"unknown fault {text!r}; write NAME[:COUNT[:LOSS]] with one of {', '.join(sorted(FAULTS))}")
    count = _count(numbers[0], text) if numbers else None
    return Order(name, count, _loss(numbers[1], text) if len(numbers) > 1 else FAULTS[name].loss)


def _count(word: str, text: str) -> int | None:
    if not word:
        return None
    if not word.isdecimal() or int(word) < 1:
        raise FaultError(f"{text!r}: the count is {word!r}; write a whole number from 1 on, as in thermal:2")
    return int(word)


def _loss(word: str, text: str) -> float:
    try:
        loss = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        loss = -1.0
    if not 0 < loss <= 0.9:  # noqa: PLR2004 # a gpu that loses more is not slow but broken
        raise FaultError(f"{text!r}: the loss is {word!r}; write a part of the rate, as in thermal:2:0.08 or 8%")
    return loss
