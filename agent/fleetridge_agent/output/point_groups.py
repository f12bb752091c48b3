"""Which measured points belong together in tables, charts and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetridge.dtypes import Dtype, dtype_named
from fleetridge.report import GemmPoint, Point, Report, Roof, StreamPoint
from fleetridge.roofline import gemm_intensity

Group = Literal["reference", "square", "skinny", "best", "bandwidth"]


@dataclass(frozen=True, slots=True)
class Multiplication:
    """
    A way to multiply, which has a roof of its own.

    Attributes:
        fast_accumulation: whether partial sums may stay in reduced precision; None where there is no such choice.
    """

    dtype: str
    out_dtype: str | None = None
    fast_accumulation: bool | None = None

    @property
    def sizes(self) -> Dtype:
        """Element sizes of inputs and output."""
        dtype = dtype_named(self.dtype)
        return dtype if self.out_dtype is None else dtype.with_output(self.out_dtype)

    def __str__(self) -> str:
        sizes = self.sizes
        output = "" if sizes.output_bytes == sizes.input_bytes else f" to {sizes.output}"
        return f"{self.dtype}{output}{', fast accumulation' if self.fast_accumulation else ''}"


def group_of(point: Point) -> Group:
    """
    Group of a point by its label and shape.

    `skinny` are products with a model's weights, from one token to many.
    """
    if isinstance(point, StreamPoint):
        return "bandwidth"
    if point.label == "reference":
        return "reference"
    if point.label == "best":
        return "best"
    return "square" if point.label is None and point.M == point.K == point.N else "skinny"


def multiplication_of(measured: GemmPoint | Roof) -> Multiplication:
    """Way to multiply behind a point or compute roof."""
    return Multiplication(measured.dtype, measured.out_dtype, measured.fast_accumulation)


def multiplications(report: Report) -> tuple[Multiplication, ...]:
    """All ways to multiply that a report measured, in its order."""
    found = [multiplication_of(point) for point in report.points if isinstance(point, GemmPoint)]
    found += [multiplication_of(roof) for roof in report.roofs if roof.kind == "compute"]
    return tuple(dict.fromkeys(found))


def gemms_of(points: Iterable[Point], multiplication: Multiplication, *groups: Group) -> tuple[GemmPoint, ...]:
    """Products of one way to multiply in some groups, in the order given; those with a warm cache are left out."""
    return tuple(
        point
        for point in points
        if isinstance(point, GemmPoint)
        and point.l2 != "warm"
        and multiplication_of(point) == multiplication
        and group_of(point) in groups
    )


def warm_twin(point: GemmPoint, points: Iterable[Point]) -> GemmPoint | None:
    """The same product with its operands in the cache; None where that was not measured."""
    same = _work_of(point)
    warm = (other for other in points if isinstance(other, GemmPoint) and other.l2 == "warm")
    return next((other for other in warm if _work_of(other) == same), None)


def _work_of(point: GemmPoint) -> tuple[object, ...]:
    return point.label, point.M, point.K, point.N, multiplication_of(point)


def streams_of(points: Sequence[Point]) -> tuple[StreamPoint, ...]:
    """Streaming kernels, in the order given."""
    return tuple(point for point in points if isinstance(point, StreamPoint))


def intensity(point: GemmPoint) -> float:
    """Intensity of a product over its compulsory traffic, in FLOP/byte."""
    sizes = multiplication_of(point).sizes
    return gemm_intensity(point.M, point.K, point.N, input_bytes=sizes.input_bytes, output_bytes=sizes.output_bytes)
