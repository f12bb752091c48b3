"""Which measured points belong together in tables, charts and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from fleetridge.report import GemmPoint, Point, Report, Roof, StreamPoint
from fleetridge.roofline import gemm_intensity
from fleetridge_agent.device.product import Product

Group = Literal["reference", "square", "skinny", "best", "bandwidth"]


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


def product_of(measured: GemmPoint | Roof) -> Product:
    """Way to multiply behind a point or compute roof."""
    return Product(measured.dtype, measured.fast_accumulation, measured.out_dtype)


def products_in(report: Report) -> tuple[Product, ...]:
    """All ways to multiply that a report measured, in its order."""
    found = [product_of(point) for point in report.points if isinstance(point, GemmPoint)]
    found += [product_of(roof) for roof in report.roofs if roof.kind == "compute"]
    return tuple(dict.fromkeys(found))


def gemms_of(points: Iterable[Point], product: Product, *groups: Group) -> tuple[GemmPoint, ...]:
    """Products of one way to multiply in some groups, in the order given; those with a warm cache are left out."""
    return tuple(
        point
        for point in points
        if isinstance(point, GemmPoint)
        and point.l2 != "warm"
        and product_of(point) == product
        and group_of(point) in groups
    )


def warm_twin(point: GemmPoint, points: Iterable[Point]) -> GemmPoint | None:
    """The same product with its operands in the cache; None where that was not measured."""
    same = _work_of(point)
    warm = (other for other in points if isinstance(other, GemmPoint) and other.l2 == "warm")
    return next((other for other in warm if _work_of(other) == same), None)


def _work_of(point: GemmPoint) -> tuple[object, ...]:
    return point.label, point.M, point.K, point.N, product_of(point)


def streams_of(points: Sequence[Point]) -> tuple[StreamPoint, ...]:
    """Streaming kernels, in the order given."""
    return tuple(point for point in points if isinstance(point, StreamPoint))


def intensity(point: GemmPoint) -> float:
    """Intensity of a product over its compulsory traffic, in FLOP/byte."""
    sizes = product_of(point).format
    return gemm_intensity(point.M, point.K, point.N, input_bytes=sizes.input_bytes, output_bytes=sizes.output_bytes)
