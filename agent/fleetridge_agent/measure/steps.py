"""The steps of a sweep, as data: what each will measure."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge.quantities import MIB
from fleetridge_agent.device.product import Gemm


@dataclass(frozen=True, slots=True)
class ReferenceStep:
    """Measure the judged burst roof of one way to multiply."""

    gemm: Gemm

    def __str__(self) -> str:
        return f"reference {self.gemm.product}"


@dataclass(frozen=True, slots=True)
class SustainedStep:
    """Measure the judged sustained roof of one way to multiply."""

    gemm: Gemm

    def __str__(self) -> str:
        return f"sustained {self.gemm.product}"


@dataclass(frozen=True, slots=True)
class StreamStep:
    """
    Measure the memory roofs, with three buffers of this size.

    Attributes:
        standard_bytes: size that the protocol asks for on this device; with any other nothing is judged.
    """

    buffer_bytes: int
    standard_bytes: int

    def __str__(self) -> str:
        return f"streams over {self.buffer_bytes // MIB} MiB"


@dataclass(frozen=True, slots=True)
class LinkStep:
    """Measure copies over the link to the host."""

    def __str__(self) -> str:
        return "link to the host"


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Look for the fastest of these shapes of one way to multiply."""

    gemms: tuple[Gemm, ...]

    def __str__(self) -> str:
        return f"search {self.gemms[0].product}"


@dataclass(frozen=True, slots=True)
class ShapeStep:
    """Measure one product; the label is its name in a model, None for a square."""

    gemm: Gemm
    label: str | None

    def __str__(self) -> str:
        return f"{self.label or 'square'} {self.gemm}"


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """Measure one weight with several small numbers of rows."""

    shapes: tuple[ShapeStep, ...]

    def __str__(self) -> str:
        rows = [shape.gemm.m for shape in self.shapes]
        return f"decode {self.shapes[0].label} M={min(rows)}…{max(rows)} {self.shapes[0].gemm.product}"


@dataclass(frozen=True, slots=True)
class CanaryStep:
    """Measure judged roofs again, to see whether the device is still what it was."""

    gemm: Gemm | None
    has_streams: bool

    def __str__(self) -> str:
        return "the same again"


Step = ReferenceStep | SustainedStep | StreamStep | LinkStep | SearchStep | ShapeStep | DecodeStep | CanaryStep
