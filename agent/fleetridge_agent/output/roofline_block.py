"""The roofline in numbers: what was achieved, what is published, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterator

from fleetridge.judged import REFERENCE_GEMM
from fleetridge.quantities import percent, quantity, signed_percent, significant
from fleetridge.report import GemmPoint, Report, Roof
from fleetridge.text_table import key_values
from fleetridge_agent.output.achieved import Achieved, MemoryRoofs
from fleetridge_agent.output.yardstick import GivenPeaks, Yardstick, beta_yardstick, pi_yardstick, ridge_of
from fleetridge_agent.protocol import FALLING

INTENSITY = "FLOP/byte"

# A rate that changes less than this from the first block to the last is steady: a third of the loss at which a gpu is
# suspected of being slow.
_STEADY = 0.01

Pairs = Iterator[tuple[str, str]]


def roofline_block(report: Report, roofs: Achieved, given: GivenPeaks, *, width: int) -> str:
    """Achieved pi, beta and ridge of one way to multiply, the published figures, and the shares reached of them."""
    pairs = [*_achieved(report, roofs), *_published(report, roofs, given)]
    return key_values(pairs, title=f"Roofline, {roofs.product.title}", width=width)


def memory_block(report: Report, memory: MemoryRoofs, given: GivenPeaks, *, width: int) -> str:
    """Achieved and published beta, for a sweep that multiplied nothing."""
    peak = beta_yardstick(_device(report), given)
    pairs = [_beta(memory), ("published beta", _said(peak, "GB/s")), *_bandwidth_efficiency(memory, peak)]
    return key_values(pairs, title="Memory roof", width=width)


def _achieved(report: Report, roofs: Achieved) -> Pairs:
    for pi in roofs.pis:
        yield f"achieved pi{_regime(pi)}", f"{quantity(pi.value, 'TFLOP/s')}, {_shape(report, pi)}{_course(pi)}"
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
    pi_peak = pi_yardstick(_device(report), roofs.product.dtype, given)
    beta_peak = beta_yardstick(_device(report), given)
    yield "published pi", _said(pi_peak, "TFLOP/s")
    yield "published beta", _said(beta_peak, "GB/s")
    ridge = ridge_of(pi_peak.value, beta_peak.value)
    if ridge is not None:
        yield "published ridge", quantity(ridge, INTENSITY)
    if pi_peak.value is not None:
        yield "compute efficiency", f"{percent(roofs.pi.value / pi_peak.value)} of the published pi"
    if roofs.memory is not None:
        yield from _bandwidth_efficiency(roofs.memory, beta_peak)


def _bandwidth_efficiency(memory: MemoryRoofs, peak: Yardstick) -> Pairs:
    if peak.value is not None:
        yield "bandwidth efficiency", f"{percent(memory.beta.value / peak.value)} of the published beta"


def _device(report: Report) -> str:
    return "" if report.gpu is None else report.gpu.device or ""


def _said(peak: Yardstick, unit: str) -> str:
    return f"unknown: {peak.source}" if peak.value is None else f"{quantity(peak.value, unit)} ({peak.source})"


def _regime(roof: Roof) -> str:
    return "" if roof.regime == "unspecified" else f", {roof.regime}"


def _shape(report: Report, pi: Roof) -> str:
    """Shape behind a compute roof."""
    point = report.points[pi.points[0]] if pi.points else None
    shape = f" [{point.M},{point.K}]×[{point.K},{point.N}]" if isinstance(point, GemmPoint) else ""
    return f"{'reference shape' if pi.kernel == REFERENCE_GEMM else 'fastest of the sweep'}{shape}"


def _course(roof: Roof) -> str:
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
    return f"achieved beta{_regime(beta)}", f"{quantity(beta.value, 'GB/s')}, {beta.kernel}{beside}{_course(beta)}"
