"""Measured points as CSV, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from fleetridge.report import GemmPoint, Point, Report, StreamPoint
from fleetridge.spreadsheets import defused
from fleetridge_agent.output.point_groups import group_of, intensity

COLUMNS = (
    "kind",
    "label",
    "M",
    "K",
    "N",
    "ms",
    "tflops",
    "intensity",
    "gbps",
    "dtype",
    "out_dtype",
    "regime",
    "l2",
    "level",
    "bytes",
    "spread",
    "reps",
    "sm_clock_mhz",
    "power_w",
    "gpu",
    "device",
)

# Enough that a rate worked out again from the time agrees far better than it was measured.
_SIGNIFICANT_DIGITS = 7


def csv_text(reports: Sequence[Report]) -> str:
    """All points of some reports, one row each, with a line of column names above."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row for report in reports for row in _rows(report))
    return text.getvalue()


def _rows(report: Report) -> Iterable[tuple[str, ...]]:
    gpu = () if report.gpu is None else (report.gpu.uuid, report.gpu.device)
    for point in report.points:
        yield (*_row(point), *(defused(name or "") for name in gpu))


def _row(point: Point) -> tuple[str, ...]:
    specific = _gemm_cells(point) if isinstance(point, GemmPoint) else _stream_cells(point)
    return tuple(specific[column] if column in specific else _shared(point)[column] for column in COLUMNS[:-2])


def _shared(point: Point) -> dict[str, str]:
    return {
        "kind": group_of(point),
        "ms": _number(point.ms),
        "dtype": defused(point.dtype),
        "regime": point.regime,
        "l2": point.l2 or "",
        "spread": _number(point.spread),
        "reps": _number(point.reps),
        "sm_clock_mhz": _number(point.sm_clock_mhz),
        "power_w": _number(point.power_w),
    }


def _gemm_cells(point: GemmPoint) -> dict[str, str]:
    return {
        "label": defused(point.label or ""),
        "M": str(point.M),
        "K": str(point.K),
        "N": str(point.N),
        "tflops": _number(point.derived_tflops),
        "intensity": _number(intensity(point)),
        "gbps": "",
        "out_dtype": defused(point.out_dtype or ""),
        "level": "",
        "bytes": "",
    }


def _stream_cells(point: StreamPoint) -> dict[str, str]:
    return {
        "label": defused(point.kernel),
        "M": "",
        "K": "",
        "N": "",
        "tflops": "",
        "intensity": "",
        "gbps": _number(point.derived_gbps),
        "out_dtype": "",
        "level": point.level,
        "bytes": str(point.bytes),
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.{_SIGNIFICANT_DIGITS}g}"
