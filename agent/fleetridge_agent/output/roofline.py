"""The roofline of a report: in numbers, drawn in characters, and with the workloads that land under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleetridge.judged_kernels import REFERENCE_GEMM
from fleetridge.quantities import percent, quantity, signed_percent, significant
from fleetridge.report import GemmPoint, Report, Roof
from fleetridge.roofline import square_t_star_tokens
from fleetridge.roofline_chart import ComputeRoof, MemoryRoof, Series, roofline_chart
from fleetridge.terminal_text import wrapped
from fleetridge.text_table import Column, key_values, text_table
from fleetridge.weight_shapes import served_model
from fleetridge.workloads import (
    DEFAULT_GQA_GROUP,
    DEFAULT_HIDDEN_SIZE,
    Workload,
    place,
    place_shapes,
    reference_workloads,
)
from fleetridge_agent.device.gemm_variants import GemmVariant
from fleetridge_agent.measurement_protocol import FALLING
from fleetridge_agent.output.roof_selection import (
    Achieved,
    ComparedPeak,
    GivenPeaks,
    MemoryRoofs,
    beta_peak_of,
    gemms_of,
    intensity,
    pi_peak_of,
    ridge_of,
)

INTENSITY = "FLOP/byte"

# A rate that changes less than this from the first block to the last is steady: a third of the loss at which a gpu is
# suspected of being slow.
_STEADY = 0.01

Pairs = Iterator[tuple[str, str]]


def roofline_block(report: Report, roofs: Achieved, given: GivenPeaks, *, width: int) -> str:
    """Achieved pi, beta and ridge of one GEMM variant, the published figures, and the shares reached of them."""
    pairs = [*_achieved(report, roofs), *_published(report, roofs, given)]
    return key_values(pairs, title=f"Roofline, {roofs.variant.title}", width=width)


def memory_block(report: Report, memory: MemoryRoofs, given: GivenPeaks, *, width: int) -> str:
    """Achieved and published beta, for a sweep that multiplied nothing."""
    peak = beta_peak_of(_device(report), given)
    pairs = [_beta(memory), ("published beta", _peak_text(peak, "GB/s")), *_bandwidth_efficiency(memory, peak)]
    return key_values(pairs, title="Memory roof", width=width)


def _achieved(report: Report, roofs: Achieved) -> Pairs:
    for pi in roofs.pis:
        yield f"achieved pi{_regime(pi)}", f"{quantity(pi.value, 'TFLOP/s')}, {_shape(report, pi)}{_trend_text(pi)}"
        if pi.sm_clock_mhz:
            yield f"pi per GHz{_regime(pi)}", _per_ghz(pi)
    if roofs.best is not None:
        yield "best shape", f"{quantity(roofs.best.value, 'TFLOP/s')}, {_shape(report, roofs.best)}"
    if roofs.memory is not None:
        yield _beta(roofs.memory)
    for pi in roofs.pis:
        ridge = roofs.ridge_under(pi)
        if ridge is not None:
            yield f"measured ridge I*{_regime(pi)}", f"{quantity(ridge, INTENSITY)} = pi / beta"


def _published(report: Report, roofs: Achieved, given: GivenPeaks) -> Pairs:
    pi_peak = pi_peak_of(_device(report), roofs.variant.dtype, given)
    beta_peak = beta_peak_of(_device(report), given)
    yield "published pi", _peak_text(pi_peak, "TFLOP/s")
    yield "published beta", _peak_text(beta_peak, "GB/s")
    ridge = ridge_of(pi_peak.value, beta_peak.value)
    if ridge is not None:
        yield "published ridge", quantity(ridge, INTENSITY)
    if pi_peak.value is not None:
        yield "compute efficiency", f"{percent(roofs.pi.value / pi_peak.value)} of the published pi"
    if roofs.memory is not None:
        yield from _bandwidth_efficiency(roofs.memory, beta_peak)


def _bandwidth_efficiency(memory: MemoryRoofs, peak: ComparedPeak) -> Pairs:
    if peak.value is not None:
        yield "bandwidth efficiency", f"{percent(memory.beta.value / peak.value)} of the published beta"


def _device(report: Report) -> str:
    return "" if report.gpu is None else report.gpu.device or ""


def _peak_text(peak: ComparedPeak, unit: str) -> str:
    return f"unknown: {peak.source}" if peak.value is None else f"{quantity(peak.value, unit)} ({peak.source})"


def _regime(roof: Roof) -> str:
    return "" if roof.regime == "unspecified" else f", {roof.regime}"


def _shape(report: Report, pi: Roof) -> str:
    """Shape behind a compute roof."""
    point = report.points[pi.points[0]] if pi.points else None
    shape = f" [{point.M},{point.K}]×[{point.K},{point.N}]" if isinstance(point, GemmPoint) else ""
    return f"{'reference shape' if pi.kernel == REFERENCE_GEMM else 'fastest of the sweep'}{shape}"


def _trend_text(roof: Roof) -> str:
    """How a rate went while it was measured; nothing where it was steady."""
    unsettled = "; not settled within its time" if roof.converged is False else ""
    if roof.trend is None or abs(roof.trend) <= _STEADY:
        return unsettled
    falling = "; falling, " if roof.trend < -FALLING else "; "
    return f"{falling}{signed_percent(roof.trend)} from first to last block{unsettled}"


def _per_ghz(pi: Roof) -> str:
    """Rate over the clock under which it came about: what a lower clock explains is the same here."""
    clock_mhz = pi.sm_clock_mhz or 0.0
    power = "" if pi.power_w is None else f" and {pi.power_w:.0f} W"
    return f"{quantity(pi.value / clock_mhz * 1000, 'TFLOP/s')}, at {clock_mhz:.0f} MHz{power}"


def _beta(memory: MemoryRoofs) -> tuple[str, str]:
    beta = memory.beta
    others = ", ".join(f"{roof.kernel} {significant(roof.value)}" for roof in memory.others)
    beside = f" ({others})" if others else ""
    return f"achieved beta{_regime(beta)}", f"{quantity(beta.value, 'GB/s')}, {beta.kernel}{beside}{_trend_text(beta)}"


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """
    What the reference workloads are worked out for.

    Attributes:
        hidden_size: width d of the model.
        gqa_group: query heads that share one KV head (g).
    """

    hidden_size: int = DEFAULT_HIDDEN_SIZE
    gqa_group: int = DEFAULT_GQA_GROUP


def workloads_of(variant: GemmVariant, traits: ModelTraits) -> tuple[Workload, ...]:
    """Reference workloads whose weights and activations have the measured dtype."""
    return reference_workloads(variant.format, hidden_size=traits.hidden_size, gqa_group=traits.gqa_group)


def workload_table(roofs: Achieved, traits: ModelTraits, *, width: int) -> str:
    """Reference workloads on the measured ridge; empty where memory was not measured."""
    if roofs.beta is None:
        return ""
    pi_tflops, beta_gbps = roofs.pi.value, roofs.beta.value
    placements = [
        place(workload, pi_tflops=pi_tflops, beta_gbps=beta_gbps) for workload in workloads_of(roofs.variant, traits)
    ]
    rows = [
        [
            one.workload.name,
            significant(one.workload.intensity),
            one.bound,
            significant(one.attainable_tflops),
            percent(one.attainable_tflops / pi_tflops).removesuffix(" %"),
        ]
        for one in placements
    ]
    columns = (
        Column("workload"),
        Column("I", "FLOP/byte"),
        Column("bound by", align="left"),
        Column("at most", "TFLOP/s"),
        Column("of pi", "%"),
    )
    return text_table(columns, rows, title="Reference workloads on the measured ridge, derived", width=width)


def t_star_sentence(roofs: Achieved, traits: ModelTraits, *, width: int) -> str:
    """How many tokens make a square projection compute-bound, or why none do; empty without a ridge."""
    if roofs.ridge is None:
        return ""
    sizes, d = roofs.variant.format, traits.hidden_size
    tokens = square_t_star_tokens(
        roofs.ridge, hidden_size=d, input_bytes=sizes.input_bytes, output_bytes=sizes.output_bytes
    )
    if tokens is None:
        highest = 2 * d / (sizes.input_bytes + sizes.output_bytes)
        text = (
            f"No number of tokens makes a square {roofs.variant.title} GEMM of width d={d} compute-bound here: its "
            f"intensity stays below 2d / (b_in + b_out) = {significant(highest)} FLOP/byte, and the ridge lies at "
            f"{significant(roofs.ridge)}."
        )
    else:
        text = (
            f"A square [T,{d}]×[{d},{d}] {roofs.variant.title} GEMM reaches the ridge at T* = {tokens:.1f} tokens. "
            "Derived: T* = I*·b_in·d / (2d − I*·(b_in + b_out)); hold it against the batched-token budget of your "
            "engine."
        )
    return "\n".join(wrapped(text, width))


def shape_table(report: Report, roofs: Achieved, *, width: int) -> str:
    """Tokens at which each weight shape of the sweep's model reaches the ridge; empty without a ridge or a model."""
    sweep = report.sweep
    if roofs.ridge is None or sweep is None or sweep.model is None:
        return ""
    shapes = served_model(sweep.model).divided_by(sweep.tensor_parallel or 1)
    rows = [
        [one.shape.label, str(one.shape.k), str(one.shape.n), _tokens(one.t_star_tokens)]
        for one in place_shapes(shapes, roofs.variant.format, ridge=roofs.ridge)
    ]
    columns = (Column("shape"), Column("K"), Column("N"), Column("T*", "tokens"))
    return text_table(columns, rows, title="Tokens at which each weight shape reaches the ridge, derived", width=width)


def _tokens(t_star_tokens: float | None) -> str:
    return "never" if t_star_tokens is None else f"{t_star_tokens:.1f}"


def roofline_drawing(report: Report, roofs: Achieved, traits: ModelTraits, *, width: int, ascii_only: bool) -> str:
    """Roofs, measured products and reference workloads of one GEMM variant."""
    compute = [ComputeRoof(f"pi {roof.regime}".removesuffix(" unspecified"), roof.value) for roof in roofs.pis]
    memory = None if roofs.beta is None else MemoryRoof(f"beta {roofs.beta.kernel}", roofs.beta.value)
    groups = {
        "square GEMM": gemms_of(report.points, roofs.variant, "square"),
        "weight shapes": gemms_of(report.points, roofs.variant, "skinny"),
        "reference and best shape": gemms_of(report.points, roofs.variant, "reference", "best"),
    }
    return roofline_chart(
        compute,
        memory,
        series=[_series(label, points) for label, points in groups.items() if points],
        workloads=workloads_of(roofs.variant, traits),
        width=width,
        ascii_only=ascii_only,
    )


def _series(label: str, points: tuple[GemmPoint, ...]) -> Series:
    return Series(label, tuple((intensity(point), point.derived_tflops) for point in points))
