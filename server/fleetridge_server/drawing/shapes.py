"""Shapes of marks. What a gpu's verdict says is told by shape first and by colour second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetridge_server.drawing.svg import coordinate as c
from fleetridge_server.drawing.svg import element, path
from fleetridge_server.verdict.state import State

Draw = Callable[[str, float, float, float], str]


def circle(kind: str, x: float, y: float, r: float) -> str:
    """A circle of a class."""
    return element("circle", {"class": kind, "cx": x, "cy": y, "r": r})


def triangle_down(kind: str, x: float, y: float, r: float) -> str:
    """A triangle that points down."""
    return path(kind, [f"M{c(x - r)} {c(y - 0.8 * r)}h{c(2 * r)}l{c(-r)} {c(1.8 * r)}z"])


def diamond(kind: str, x: float, y: float, r: float) -> str:
    """A diamond."""
    return path(kind, [f"M{c(x)} {c(y - r)}l{c(r)} {c(r)}l{c(-r)} {c(r)}l{c(-r)} {c(-r)}z"])


def square(kind: str, x: float, y: float, r: float) -> str:
    """A square."""
    return path(kind, [f"M{c(x - r)} {c(y - r)}h{c(2 * r)}v{c(2 * r)}h{c(-2 * r)}z"])


def cross(kind: str, x: float, y: float, r: float) -> str:
    """A cross of two strokes."""
    return path(kind, [f"M{c(x - r)} {c(y - r)}l{c(2 * r)} {c(2 * r)}m0 {c(-2 * r)}l{c(-2 * r)} {c(2 * r)}"])


@dataclass(frozen=True, slots=True)
class Look:
    """
    How gpus in a state are drawn.

    Attributes:
        word: for legends and for those who listen.
        size: beside that of a healthy gpu.
    """

    word: str
    kind: str
    draw: Draw
    size: float = 1.0

    def drawn(self, x: float, y: float, radius: float) -> str:
        """The mark at a place."""
        return self.draw(self.kind, x, y, radius * self.size)


# What nothing is said against.
PEER = Look("gpu", "fr-peer", circle)

_LOOKS: dict[State | None, Look] = {
    "outlier": Look("outlier", "fr-accused", triangle_down, 1.6),
    "suspect": Look("suspect", "fr-suspect", triangle_down, 1.4),
    "drifted": Look("drifted", "fr-accused", diamond, 1.6),
    "implausible": Look("implausible", "fr-suspect", square, 1.1),
    "contended": Look("contended", "fr-unsure", square),
    "stale": Look("stale", "fr-unsure", circle),
    "missing": Look("missing", "fr-unsure", cross),
    "unmeasured": Look("unmeasured", "fr-unsure", cross),
}


def look_of(state: State | None) -> Look:
    """How a gpu in a state is drawn; healthy ones, and those that nothing can be said of, are plain."""
    return _LOOKS.get(state, PEER)
