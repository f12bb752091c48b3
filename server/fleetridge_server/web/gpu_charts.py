"""The charts of a gpu's page: roofline with its points, history."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fleetridge.arithmetic_intensity import gemm_intensity
from fleetridge.dtypes import DTYPES, ELEMENT_BYTES
from fleetridge.quantities import binary_size, significant
from fleetridge.report.points import GemmPoint, Point, StreamPoint
from fleetridge_server.engine.ridge import Compared, GpuRoofs, Ridge
from fleetridge_server.engine.wording import roof_words, variant
from fleetridge_server.responses.gpu import GpuAnswer, GpuHistoryAnswer, HistoryRun, RunRoof
from fleetridge_server.text.gpu import run_note
from fleetridge_server.verdicts.roof_shapes import RoofName, published_roofs
from fleetridge_server.verdicts.sentence import roof_name, unit_of
from fleetridge_server.web.charts.history_panel import (
    EpochMark,
    FailedRun,
    HistoryChart,
    HistoryPanel,
    HistoryPoint,
    PeerBand,
    VerdictMark,
)
from fleetridge_server.web.charts.roofline_curves import FleetRoof, GpuRoof, MeasuredPoint, PublishedPi, RooflineChart
from fleetridge_server.web.charts.symbols import DrawnGpu
from fleetridge_server.web.device_charts import usual_dtype
from fleetridge_server.web.words import gpu_label, state_word

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


# A setting that changed is named with its values while those fit beside the mark.
_LONGEST_CHANGE = 60


def main_dtype(answer: GpuAnswer) -> str | None:
    """Dtype that charts are about: the one in which the gpu loses most, where it is accused, else the usual one."""
    judged = () if answer.verdict is None else answer.verdict.roofs
    accused = [own for own in judged if own.standing != "clear" and own.roof.kind == "compute"]
    if accused:
        return max(accused, key=lambda own: own.loss).roof.dtype
    return usual_dtype([ridge.dtype for ridge in answer.ridges])


def gpu_roofline(answer: GpuAnswer, roofs: GpuRoofs, points: Sequence[Point]) -> RooflineChart | None:
    """Roofs of the gpu over the medians of its peers, in one dtype; None where it has none."""
    dtype = main_dtype(answer)
    ridges = [ridge for ridge in roofs.ridges if ridge.pi.own.cohort.roof.dtype == dtype]
    if dtype is None or not ridges:
        return None
    state = None if answer.verdict is None else answer.verdict.state
    own = DrawnGpu(gpu_label(answer.node, answer.index, answer.gpu_id), state, highlighted=True)
    published = published_roofs(answer.device.name, dtype, ridges[0].pi.own.cohort.conditions)
    has_peers = any(ridge.pi.cohort.n > 1 for ridge in ridges)
    beside = "beside the median of its peers" if has_peers else "alone: there are no peers yet"
    return RooflineChart(
        title=f"Roofline in {dtype}, {beside}",
        roofs=tuple(_fleet_roof(ridge, own) for ridge in ridges),
        published_pi=() if published.pi_tflops is None else (PublishedPi(_words(ridges[0]), published.pi_tflops),),
        published_beta_gbps=published.beta_gbps,
        points=measured_points(points, dtype),
    )


def gpu_history(answer: GpuAnswer, history: GpuHistoryAnswer, roofs: GpuRoofs) -> HistoryChart | None:
    """The gpu's rates, clock, power and temperature over time; None where nothing was ever measured."""
    panels = [*_rate_panels(answer, history, roofs), *_reading_panels(history, main_dtype(answer))]
    panels = [panel for panel in panels if panel.points]
    if not panels:
        return None
    return HistoryChart(
        title="What it did over time",
        panels=tuple(panels),
        epochs=tuple(EpochMark(own.ordered_at, _change(own.before, own.after)) for own in history.changes),
        verdicts=tuple(VerdictMark(own.as_of, own.state) for own in history.verdict_changes),
        failed=tuple(
            FailedRun(run.ordered_at, run.reason or run.outcome) for run in history.runs if run.outcome != "measured"
        ),
        until=history.as_of,
    )


def _fleet_roof(ridge: Ridge, own: DrawnGpu) -> FleetRoof:
    beta = ridge.beta
    return FleetRoof(
        dtype=_words(ridge),
        regime=ridge.pi.own.cohort.roof.regime,
        pi_tflops=ridge.pi.against.median,
        beta_gbps=None if beta is None else beta.against.median,
        gpus=(GpuRoof(own, ridge.pi.own.value, None if beta is None else beta.own.value),),
    )


def _words(ridge: Ridge) -> str:
    roof = ridge.pi.own.cohort.roof
    return variant(roof.dtype, "unspecified", roof.out_dtype, fast_accumulation=roof.fast_accumulation)


def _rate_panels(answer: GpuAnswer, history: GpuHistoryAnswer, roofs: GpuRoofs) -> Iterable[HistoryPanel]:
    limits = (
        {}
        if answer.verdict is None
        else {own.roof: own.band.lowest for own in answer.verdict.roofs if own.z is not None}
    )
    dtype = main_dtype(answer)
    for compared in dict.fromkeys(roofs.judged):
        name = roof_name(compared.own.cohort.roof)
        if name.kind == "memory" or name.dtype == dtype:
            yield HistoryPanel(
                label=roof_words(name),
                unit=unit_of(compared.own.cohort.roof),
                points=tuple(_points(history.runs, name, lambda roof: roof.value, limits.get(name))),
                band=_band(compared),
            )


def _reading_panels(history: GpuHistoryAnswer, dtype: str | None) -> Iterable[HistoryPanel]:
    """Clock, power and temperature while the product was measured that loads the gpu most."""
    names = {roof.roof for run in history.runs for roof in run.roofs if roof.roof.kind == "compute"}
    of_dtype = sorted(
        (name for name in names if name.dtype == dtype), key=lambda name: (name.regime != "sustained", name.regime)
    )
    if not of_dtype:
        return
    name = of_dtype[0]
    readings: tuple[tuple[str, str, Callable[[RunRoof], float | None]], ...] = (
        ("SM clock", "MHz", lambda roof: roof.sm_clock_mhz),
        ("power", "W", lambda roof: roof.power_w),
        ("temperature", "°C", lambda roof: roof.temperature_c),
    )
    for label, unit, reading in readings:
        yield HistoryPanel(f"{label} in {roof_words(name)}", unit, tuple(_points(history.runs, name, reading, None)))


def _points(
    runs: Iterable[HistoryRun], name: RoofName, reading: Callable[[RunRoof], float | None], lowest: float | None
) -> Iterable[HistoryPoint]:
    for run in runs:
        for roof in run.roofs:
            value = reading(roof)
            if roof.roof == name and value is not None:
                yield HistoryPoint(
                    run.ordered_at, value, accused=lowest is not None and value < lowest, note=run_note(run, roof)
                )


def _band(compared: Compared) -> PeerBand | None:
    peers = compared.cohort
    return PeerBand(peers.p5, peers.median, peers.p95) if peers.n > 1 else None


def _change(before: dict[str, str], after: dict[str, str]) -> str:
    words = ", ".join(f"{state_word(name)} {before[name]} → {after[name]}" for name in before)
    return words if len(words) <= _LONGEST_CHANGE else f"{len(before)} settings changed"
