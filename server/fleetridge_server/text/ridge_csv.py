"""The gpus of a device as CSV: a row for each gpu and judged roof, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from fleetridge.spreadsheets import defused
from fleetridge_server.responses.device import DeviceRidge, GpuRow
from fleetridge_server.verdicts.roof_shapes import GpuBandwidth, GpuRidge

COLUMNS = (
    "cluster", "node", "index", "gpu_id", "state", "last_state", "reason", "slow_since", "roof", "dtype", "out_dtype",
    "fast_accumulation", "regime", "kernel", "unit", "value", "median", "deviation", "peers", "ridge_flop_per_byte",
    "method", "reports", "report_id", "measured_to", "flags",
)  # fmt: skip

# Enough that a rate worked out again from the time agrees far better than it was measured.
_SIGNIFICANT_DIGITS = 7


def ridge_csv(answer: DeviceRidge) -> str:
    """Gpus in the order of the answer, below a line of column names; one without a value has a row all the same."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\r\n")  # RFC 4180
    writer.writeheader()
    writer.writerows(row for gpu in answer.gpus for row in _rows(gpu))
    return text.getvalue()


def _rows(gpu: GpuRow) -> Iterator[dict[str, str]]:
    shared = _cells(_who(gpu))
    roofs = [*map(_pi, gpu.ridges), *map(_beta, gpu.bandwidths)]
    for roof in roofs or [{"flags": " ".join(gpu.flags)}]:
        yield shared | _cells(roof)


def _who(gpu: GpuRow) -> dict[str, Any]:
    verdict = gpu.verdict
    who = {"cluster": gpu.cluster, "node": gpu.node, "index": gpu.index, "gpu_id": gpu.gpu_id}
    if verdict is None:
        return who
    return who | {
        "state": verdict.state,
        "last_state": verdict.last_state,
        "reason": verdict.reasons[0].code if verdict.reasons else None,
        "slow_since": verdict.slow_since,
    }


def _pi(own: GpuRidge) -> dict[str, Any]:
    return {
        "roof": "pi",
        "unit": "TFLOP/s",
        "out_dtype": own.out_dtype,
        "fast_accumulation": own.fast_accumulation,
        "value": own.pi_tflops,
        "median": own.pi_median_tflops,
        "deviation": own.pi_deviation,
        "ridge_flop_per_byte": own.ridge_flop_per_byte,
        **_basis(own),
    }


def _beta(own: GpuBandwidth) -> dict[str, Any]:
    return {
        "roof": "beta",
        "unit": "GB/s",
        "value": own.beta_gbps,
        "median": own.beta_median_gbps,
        "deviation": own.beta_deviation,
        **_basis(own),
    }


_OF_BASIS = ("dtype", "regime", "kernel", "peers", "method", "reports", "report_id", "measured_to")


def _basis(own: GpuRidge | GpuBandwidth) -> dict[str, Any]:
    return {**{name: getattr(own, name) for name in _OF_BASIS}, "flags": " ".join(own.flags)}


def _cells(values: dict[str, Any]) -> dict[str, str]:
    return {name: _cell(value) for name, value in values.items()}


def _cell(value: Any) -> str:  # noqa: ANN401 # whatever an answer holds
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.{_SIGNIFICANT_DIGITS}g}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return defused(str(value))
