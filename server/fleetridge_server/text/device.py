"""Devices as text; the gpus of one as CSV: a row for each gpu and judged roof, safe to open in a spreadsheet."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from fleetridge.csv_injection import escaped_formula
from fleetridge.quantities import MISSING, signed_percent, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.wording import variant
from fleetridge_server.responses.device import DeviceList, DeviceRidge, GpuRow
from fleetridge_server.text import words
from fleetridge_server.text.words import (
    ago,
    at,
    blocks,
    differing_conditions,
    lines,
    middle,
    more_follows,
    ridge_words,
    share,
    short_id,
    spread,
)
from fleetridge_server.verdicts.roof_shapes import FleetBandwidth, FleetRidge, GpuBandwidth, GpuRidge, Worst

_DEVICES = (
    Column("device"), Column("slug", align="left"), Column("gpus"), Column("nodes"), Column("newest"),
    Column("verdicts", align="left"),
)  # fmt: skip
_MEDIANS = (
    Column("device"), Column("roof", align="left"), Column("peers"), Column("pi", "TFLOP/s"), Column("beta", "GB/s"),
    Column("I*", "FLOP/B"), Column("of publ.", "pi"),
)  # fmt: skip
_RIDGES = (
    Column("ridge"), Column("peers"), Column("pi", "TFLOP/s"), Column("quartiles"), Column("beta", "GB/s"),
    Column("I*", "FLOP/B"), Column("of publ.", "pi"),
)  # fmt: skip
_BANDWIDTHS = (Column("memory"), Column("peers"), Column("beta", "GB/s"), Column("quartiles"), Column("of publ."))
_GPUS = (
    Column("worst in"),
    Column("by"),
    Column("pi"),
    Column("beta"),
    Column("I*"),
    Column("verdict", align="left"),
    Column("node", align="left"),
    Column("#"),
    Column("gpu", align="left"),
)

# More names than fit in two or three lines help nobody.
_NAMED_GPUS = 8


def device_list(answer: DeviceList) -> str:
    """Every device, then what its gpus reach."""
    if not answer.devices:
        return "no devices"
    rows = [
        [
            device.name,
            device.slug,
            str(device.gpus),
            str(device.nodes),
            ago(device.newest_report, answer.as_of),
            words.counts(device.verdicts) or MISSING,
        ]
        for device in answer.devices
    ]
    medians = [
        [device.name, f"{ridge_words(ridge)}{conditions}", *_figures(ridge)]
        for device in answer.devices
        for ridge, conditions in zip(device.ridges, differing_conditions(device.ridges), strict=True)
    ]
    return blocks(
        text_table(_DEVICES, rows, title=f"devices as of {at(answer.as_of)}; newest: age of the newest report"),
        text_table(_MEDIANS, medians, title="medians of what they reach, and part of the published pi")
        if medians
        else "",
        more_follows(answer.next, "devices"),
    )


def device_ridge(answer: DeviceRidge) -> str:
    """The fleet's ridges, then the gpus worst first."""
    device = answer.device
    names = [name for name in device.names if name != device.name]
    called = f" (reported as {', '.join(names)})" if names else ""
    return blocks(
        lines([f"{device.name}{called}, as of {at(answer.as_of)}"]),
        words.evaluation(answer, answer.verdicts),
        words.notices(answer.notices),
        _ridges(answer.ridges),
        _bandwidths(answer.bandwidths),
        words.bands(answer.cohorts),
        lines(_too_few(answer)),
        _gpus(answer),
        words.troubled_gpus(
            words.named_gpu(row.gpu_id, row.index, row.verdict, row.node or MISSING)
            for row in answer.gpus
            if row.verdict is not None
        ),
        lines([*_flagged(answer.gpus), *_waiting(answer.gpus)]),
        more_follows(answer.next, "gpus"),
    )


def _ridges(ridges: Sequence[FleetRidge]) -> str:
    if not ridges:
        return "no ridges: no valid report has a judged pi here"
    rows = [
        [f"{ridge_words(ridge)}{conditions}", *_figures(ridge, spread(ridge.pi_tflops))]
        for ridge, conditions in zip(ridges, differing_conditions(ridges), strict=True)
    ]
    return text_table(_RIDGES, rows, title="medians over the gpus, quartiles of pi")


def _bandwidths(bandwidths: Sequence[FleetBandwidth]) -> str:
    if not bandwidths:
        return ""
    rows = [
        [
            f"{_stream(bandwidth)}{conditions}",
            str(bandwidth.peers),
            middle(bandwidth.beta_gbps),
            spread(bandwidth.beta_gbps),
            share(bandwidth.share_of_published),
        ]
        for bandwidth, conditions in zip(bandwidths, differing_conditions(bandwidths), strict=True)
    ]
    return text_table(_BANDWIDTHS, rows)


def _gpus(answer: DeviceRidge) -> str:
    if not answer.gpus:
        return "no gpus"
    title = "gpus, worst first (TFLOP/s, GB/s, FLOP/B); by: beside the median of all peers"
    return text_table(_GPUS, [_gpu(row) for row in answer.gpus], title=title)


def _gpu(row: GpuRow) -> list[str]:
    verdict = MISSING if row.verdict is None else words.state_word(row.verdict.state)
    where = [verdict, row.node or MISSING, MISSING if row.index is None else str(row.index), short_id(row.gpu_id)]
    worst = row.worst
    if worst is None:
        unmeasured = "unmeasured" if "unmeasured" in row.flags else MISSING
        said = unmeasured if row.outcome in (None, "measured") else f"{row.outcome}: {row.reason}"
        return [said, MISSING, MISSING, MISSING, MISSING, *where]
    roof = f"{worst.roof} {variant(worst.dtype, worst.regime)}".replace("sustained", "sust.")
    return [roof, signed_percent(worst.deviation), *_ridge_of(worst, row.ridges), *where]


def _ridge_of(worst: Worst, ridges: Sequence[GpuRidge]) -> list[str]:
    """Pi, beta and I* of the first ridge that a roof is part of; of a beta alone where it is part of none."""
    for ridge in ridges:
        if worst.value == (ridge.pi_tflops if worst.roof == "pi" else ridge.beta_gbps):
            return [significant(ridge.pi_tflops), significant(ridge.beta_gbps), significant(ridge.ridge_flop_per_byte)]
    return [MISSING, significant(worst.value), MISSING]


def _figures(ridge: FleetRidge, *after_pi: str) -> list[str]:
    return [
        str(ridge.peers),
        middle(ridge.pi_tflops),
        *after_pi,
        middle(ridge.beta_gbps),
        middle(ridge.ridge_flop_per_byte),
        share(ridge.pi_share_of_published),
    ]


def _too_few(answer: DeviceRidge) -> list[str]:
    groups = [(ridge_words(ridge), ridge.note) for ridge in answer.ridges]
    groups += [(_stream(bandwidth), bandwidth.note) for bandwidth in answer.bandwidths]
    roofs: dict[str, list[str]] = defaultdict(list)
    for roof, note in dict.fromkeys(groups):
        if note is not None:
            roofs[note].append(roof)
    return [f"{', '.join(named)}: {note}" for note, named in roofs.items()]


def _flagged(rows: Sequence[GpuRow]) -> list[str]:
    flags = sorted({flag for row in rows for flag in row.flags} - {"unmeasured"})
    return [f"{flag}: {_short_ids([row for row in rows if flag in row.flags])}" for flag in flags]


def _waiting(rows: Sequence[GpuRow]) -> list[str]:
    """Gpus that reported since the evaluation, whose numbers are those of before."""
    waiting = [row for row in rows if row.not_judged_yet is not None]
    return [f"reported since, not judged yet: {_short_ids(waiting)}"] if waiting else []


def _short_ids(rows: Sequence[GpuRow]) -> str:
    more = f" and {len(rows) - _NAMED_GPUS} more" if len(rows) > _NAMED_GPUS else ""
    return ", ".join(short_id(row.gpu_id) for row in rows[:_NAMED_GPUS]) + more


def _stream(bandwidth: FleetBandwidth) -> str:
    return f"beta {variant(bandwidth.dtype, bandwidth.regime)}"


CSV_COLUMNS = (
    "cluster", "node", "index", "gpu_id", "state", "last_state", "reason", "slow_since", "roof", "dtype", "out_dtype",
    "fast_accumulation", "regime", "kernel", "unit", "value", "median", "deviation", "peers", "ridge_flop_per_byte",
    "method", "reports", "report_id", "measured_to", "flags",
)  # fmt: skip

# Enough that a rate worked out again from the time agrees far better than it was measured.
_SIGNIFICANT_DIGITS = 7


def ridge_csv(answer: DeviceRidge) -> str:
    """Gpus in the order of the answer, below a line of column names; one without a value has a row all the same."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, CSV_COLUMNS, restval="", lineterminator="\r\n")  # RFC 4180
    writer.writeheader()
    writer.writerows(row for gpu in answer.gpus for row in _csv_rows(gpu))
    return text.getvalue()


def _csv_rows(gpu: GpuRow) -> Iterator[dict[str, str]]:
    shared = _cells(_who_cells(gpu))
    roofs = [*map(_pi, gpu.ridges), *map(_beta, gpu.bandwidths)]
    for roof in roofs or [{"flags": " ".join(gpu.flags)}]:
        yield shared | _cells(roof)


def _who_cells(gpu: GpuRow) -> dict[str, Any]:
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
    return escaped_formula(str(value))
