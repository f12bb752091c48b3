"""Reports for programs: measured points as CSV, whole reports as JSON with the derived numbers beside them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from fleetridge.csv_injection import escaped_formula
from fleetridge.report import GemmPoint, Point, Report, StreamPoint
from fleetridge_agent.output.roof_selection import (
    Achieved,
    GivenPeaks,
    achieved,
    beta_peak_of,
    group_of,
    intensity,
    pi_peak_of,
    ridge_of,
    variants_in,
)

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
        yield (*_row(point), *(escaped_formula(name or "") for name in gpu))


def _row(point: Point) -> tuple[str, ...]:
    specific = _gemm_cells(point) if isinstance(point, GemmPoint) else _stream_cells(point)
    return tuple(specific[column] if column in specific else _shared(point)[column] for column in COLUMNS[:-2])


def _shared(point: Point) -> dict[str, str]:
    return {
        "kind": group_of(point),
        "ms": _number(point.ms),
        "dtype": escaped_formula(point.dtype),
        "regime": point.regime,
        "l2": point.l2 or "",
        "spread": _number(point.spread),
        "reps": _number(point.reps),
        "sm_clock_mhz": _number(point.sm_clock_mhz),
        "power_w": _number(point.power_w),
    }


def _gemm_cells(point: GemmPoint) -> dict[str, str]:
    return {
        "label": escaped_formula(point.label or ""),
        "M": str(point.M),
        "K": str(point.K),
        "N": str(point.N),
        "tflops": _number(point.derived_tflops),
        "intensity": _number(intensity(point)),
        "gbps": "",
        "out_dtype": escaped_formula(point.out_dtype or ""),
        "level": "",
        "bytes": "",
    }


def _stream_cells(point: StreamPoint) -> dict[str, str]:
    return {
        "label": escaped_formula(point.kernel),
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


def json_text(reports: Sequence[Report], given: GivenPeaks) -> str:
    """
    One report, or `{"reports": […]}` where several gpus were measured; either can be posted as it is.

    Each report carries a field `derived` of its own, which readers of the contract keep and need not understand.
    """
    forms = [_form(report, given) for report in reports]
    return json.dumps(forms[0] if len(forms) == 1 else {"reports": forms}, indent=2, ensure_ascii=False) + "\n"


def _form(report: Report, given: GivenPeaks) -> dict[str, Any]:
    found = [achieved(report, variant) for variant in variants_in(report)]
    derived = [_derived(report, roofs, given) for roofs in found]
    return {**report.model_dump(mode="json"), "derived": derived}


def _derived(report: Report, roofs: Achieved, given: GivenPeaks) -> dict[str, Any]:
    device = "" if report.gpu is None else report.gpu.device or ""
    pi_peak = pi_peak_of(device, roofs.variant.dtype, given).value
    beta_peak = beta_peak_of(device, given).value
    return {
        "dtype": roofs.variant.dtype,
        "out_dtype": roofs.variant.out_dtype,
        "fast_accumulation": roofs.variant.fast_accumulation,
        "pi_tflops": roofs.pi.value,
        "beta_gbps": None if roofs.beta is None else roofs.beta.value,
        "ridge_flop_per_byte": roofs.ridge,
        "published_pi_tflops": pi_peak,
        "published_beta_gbps": beta_peak,
        "published_ridge_flop_per_byte": ridge_of(pi_peak, beta_peak),
    }
