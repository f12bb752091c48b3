"""Tables: the measured points of a sweep, and one line a gpu for a run of the whole node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetridge.quantities import MISSING, binary_size, percent, significant
from fleetridge.report import GemmPoint, Report, StreamPoint
from fleetridge.roofline import attainable_tflops, bound_by
from fleetridge.text_table import DEFAULT_WIDTH, Column, text_table
from fleetridge_agent.output.roof_selection import (
    Achieved,
    achieved,
    gemms_of,
    intensity,
    memory_roofs,
    streams_of,
    variants_in,
    warm_twin,
)

# What each stream does, in words that let its bytes be counted by hand.
_STREAMS = {
    "read": "1 read",
    "write": "1 write",
    "copy": "1 read + 1 write",
    "add": "2 reads + 1 write",
    "triad": "2 reads + 1 write",
    "h2d": "host to device",
    "d2h": "device to host",
}

_RATES = (Column("time", "ms"), Column("spread", "%"), Column("rate", "TFLOP/s"), Column("I", "FLOP/byte"))
_WARM = Column("warm", "ms")
_BOUND_BY = Column("bound by", align="left")
_OF_ROOF = Column("of roof", "%")

_RUN_COLUMNS = (
    Column("gpu"),
    Column("device", align="left"),
    Column("dtype", align="left"),
    Column("pi", "TFLOP/s"),
    Column("beta", "GB/s"),
    Column("ridge", "FLOP/byte"),
    Column("outcome", align="left"),
)


def square_table(report: Report, roofs: Achieved, *, width: int) -> str:
    """Square products M=N=K of one GEMM variant; empty where none was measured."""
    points = gemms_of(report.points, roofs.variant, "square")
    rows = [
        [str(point.M), *_rates(point), _bound_by(point, roofs), _of_roof(point, roofs), _warm(point, report)]
        for point in points
    ]
    title = f"Square GEMM, {roofs.variant.title}, measured"
    return _table((Column("M=N=K"), *_RATES, _BOUND_BY, _OF_ROOF, _WARM), rows, title, width)


def weight_shape_table(report: Report, roofs: Achieved, *, width: int) -> str:
    """Products with a model's weights, one row a shape and number of tokens M; empty where none was measured."""
    points = gemms_of(report.points, roofs.variant, "skinny")
    rows = [
        [
            point.label or MISSING,
            *(str(point.K), str(point.N), str(point.M)),
            *(*_rates(point), _of_roof(point, roofs), _warm(point, report)),
        ]
        for point in points
    ]
    columns = (Column("shape"), Column("K"), Column("N"), Column("M"), *_RATES, _OF_ROOF, _WARM)
    return _table(columns, rows, f"Weight shapes, M tokens, {roofs.variant.title}, measured", width)


def reference_table(report: Report, roofs: Achieved, *, width: int) -> str:
    """Products that decide the compute roofs; empty where none was measured."""
    points = gemms_of(report.points, roofs.variant, "reference", "best")
    rows = [
        [
            *(_roof_of(point), str(point.M), str(point.K), str(point.N)),
            *(*_rates(point), _whole(point.sm_clock_mhz), _whole(point.power_w)),
        ]
        for point in points
    ]
    columns = (
        Column("roof"),
        *(Column("M"), Column("K"), Column("N"), *_RATES, Column("clock", "MHz"), Column("power", "W")),
    )
    return _table(columns, rows, f"Reference shapes, {roofs.variant.title}, measured", width)


def stream_table(report: Report, *, width: int) -> str:
    """Streaming kernels; empty where none was measured."""
    rows = [_stream_row(point) for point in streams_of(report.points)]
    columns = (
        Column("kernel"),
        Column("traffic", align="left"),
        Column("moved"),
        Column("time", "ms"),
        Column("spread", "%"),
        Column("rate", "GB/s"),
    )
    return _table(columns, rows, "Streaming kernels, measured", width)


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str, width: int) -> str:
    return text_table(columns, rows, title=title, width=width) if rows else ""


def _rates(point: GemmPoint) -> list[str]:
    return [significant(point.ms), _spread(point), significant(point.derived_tflops), significant(intensity(point))]


def _bound_by(point: GemmPoint, roofs: Achieved) -> str:
    """Roof that limits a product; nothing without both roofs."""
    return "" if roofs.ridge is None else bound_by(intensity(point), roofs.ridge)


def _of_roof(point: GemmPoint, roofs: Achieved) -> str:
    """Share that a product reached of the roof that limits it, in per cent; nothing without both roofs."""
    if roofs.beta is None:
        return ""
    limit_tflops = attainable_tflops(intensity(point), pi_tflops=roofs.pi.value, beta_gbps=roofs.beta.value)
    return _per_cent(point.derived_tflops / limit_tflops)


def _stream_row(point: StreamPoint) -> list[str]:
    return [
        point.kernel,
        _STREAMS.get(point.kernel, ""),
        binary_size(point.bytes),
        significant(point.ms),
        _spread(point),
        significant(point.derived_gbps),
    ]


def _spread(point: GemmPoint | StreamPoint) -> str:
    return MISSING if point.spread is None else _per_cent(point.spread)


def _per_cent(share: float) -> str:
    """Share in per cent without the sign, for a column whose head has it."""
    return percent(share).removesuffix(" %")


def _roof_of(point: GemmPoint) -> str:
    """Regime of a judged shape, which tells the two apart; the label of any other."""
    is_judged = point.label == "reference" and point.regime != "unspecified"
    return point.regime if is_judged else point.label or MISSING


def _whole(reading: float | None) -> str:
    return MISSING if reading is None else f"{reading:.0f}"


def _warm(point: GemmPoint, report: Report) -> str:
    """Time of the same product with its operands in the cache."""
    twin = warm_twin(point, report.points)
    return MISSING if twin is None else significant(twin.ms)


def run_table(reports: Sequence[Report], *, width: int = DEFAULT_WIDTH) -> str:
    """Table of the reports of one run, a row for each GEMM variant."""
    return text_table(_RUN_COLUMNS, [row for report in reports for row in _run_rows(report)], width=width)


def _run_rows(report: Report) -> Iterator[list[str]]:
    outcome = _outcome(report)
    memory = memory_roofs(report)
    beta = significant(None if memory is None else memory.beta.value)
    found = [achieved(report, variant) for variant in variants_in(report)]
    for roofs in found:
        pi, ridge = significant(roofs.pi.value), significant(roofs.ridge)
        yield [*_gpu_cells(report), roofs.variant.title, pi, beta, ridge, outcome]
    if not found:
        yield [*_gpu_cells(report), MISSING, MISSING, beta, MISSING, outcome]


def _outcome(report: Report) -> str:
    if report.reason is not None:
        return f"{report.outcome}: {report.reason}"
    is_together = report.sweep is not None and report.sweep.gpus_at_once is not None
    return f"{report.outcome} at once" if is_together else report.outcome


def _gpu_cells(report: Report) -> list[str]:
    if report.gpu is None:
        return [f"node {report.node.name}", MISSING]
    return [report.gpu.uuid or report.gpu.pci_bus_id or MISSING, report.gpu.device or MISSING]
