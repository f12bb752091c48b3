"""What a comparison shows."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_server.compare.stats import Distribution


@dataclass(frozen=True, slots=True)
class PairedChange:
    """Gpus that met a change, each with itself: its effect and the interval of that, as parts of the value before."""

    label: str
    gpus: int
    effect: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """A group's values in the unit of its roof; its difference from the reference where that is known."""

    label: str
    values: Distribution
    effect: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ComparedRoof:
    """
    One roof.

    Attributes:
        reference: median from which all differences are taken, that of the first group.
        groups: the largest first.
    """

    label: str
    unit: str
    reference: float
    paired: tuple[PairedChange, ...]
    groups: tuple[ComparedGroup, ...]


@dataclass(frozen=True, slots=True)
class ComparisonChart:
    """Roofs above one another on one axis."""

    title: str
    roofs: tuple[ComparedRoof, ...]
