"""The points of one report: every shape and stream that a sweep measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fleetridge.dtypes import DTYPES, ELEMENT_BYTES
from fleetridge.quantities import binary_size, significant
from fleetridge.report.points import GemmPoint, Point, StreamPoint
from fleetridge.roofline import gemm_intensity
from fleetridge_server.drawing.roofline_chart import MeasuredPoint

_POINTS: TypeAdapter[tuple[Point, ...]] = TypeAdapter(tuple[Point, ...])


@dataclass(frozen=True, slots=True)
class PointLine:
    """A point as a row: what was measured, how long a call took, and the rate that follows."""

    what: str
    size: str
    dtype: str
    regime: str
    l2: str
    ms: str
    rate: str
    unit: str
    spread: float | None


def points_of(document: bytes) -> tuple[Point, ...]:
    """Points of a report; none where it has none or a later version describes them otherwise."""
    sent: Any = json.loads(document)
    try:
        return _POINTS.validate_python(sent.get("points") or ())
    except ValidationError:
        return ()


def point_lines(points: Iterable[Point]) -> tuple[PointLine, ...]:
    """Points as rows, in the order of the report."""
    return tuple(_gemm(point) if isinstance(point, GemmPoint) else _stream(point) for point in points)


def measured_points(points: Sequence[Point], dtype: str) -> tuple[MeasuredPoint, ...]:
    """Products of one dtype for a roofline."""
    known = DTYPES.get(dtype)
    if known is None:
        return ()
    found = []
    for point in points:
        if isinstance(point, GemmPoint) and point.dtype == dtype:
            output_bytes = ELEMENT_BYTES.get(point.out_dtype or known.output, known.output_bytes)
            intensity = gemm_intensity(
                point.M, point.K, point.N, input_bytes=known.input_bytes, output_bytes=output_bytes
            )
            found.append(MeasuredPoint(f"{_name(point)} {_size(point)}", intensity, point.derived_tflops))
    return tuple(found)


def _gemm(point: GemmPoint) -> PointLine:
    output = "" if point.out_dtype in (None, point.dtype) else f" → {point.out_dtype}"
    fast = ", fast accumulation" if point.fast_accumulation else ""
    return PointLine(
        what=_name(point),
        size=_size(point),
        dtype=f"{point.dtype}{output}{fast}",
        regime=point.regime,
        l2=point.l2 or "",
        ms=significant(point.ms),
        rate=significant(point.derived_tflops),
        unit="TFLOP/s",
        spread=point.spread,
    )


def _stream(point: StreamPoint) -> PointLine:
    level = "" if point.level == "device" else f" ({point.level})"
    return PointLine(
        what=f"{point.kernel}{level}",
        size=binary_size(point.bytes),
        dtype=point.dtype,
        regime=point.regime,
        l2=point.l2 or "",
        ms=significant(point.ms),
        rate=significant(point.derived_gbps),
        unit="GB/s",
        spread=point.spread,
    )


def _name(point: GemmPoint) -> str:
    return point.label or "product"


def _size(point: GemmPoint) -> str:
    return f"{point.M} × {point.K} × {point.N}"
