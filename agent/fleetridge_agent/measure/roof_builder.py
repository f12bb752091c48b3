"""Roofs from measured points and the blocks behind them."""

from __future__ import annotations

from fleetridge.report import Roof
from fleetridge_agent.measure.gemm import MeasuredGemm
from fleetridge_agent.measure.stream import MeasuredStream
from fleetridge_agent.measure.timing import BlockTiming


def compute_roof(measured: MeasuredGemm, *, kernel: str, position: int) -> Roof:
    """
    The roof that a shape of one way to multiply set.

    Args:
        measured: the shape.
        kernel: `gemm_reference` or `gemm_best`.
        position: of its point in the report.
    """
    point = measured.point
    return Roof(
        kind="compute",
        dtype=point.dtype,
        out_dtype=point.out_dtype,
        fast_accumulation=point.fast_accumulation,
        regime=point.regime,
        level="device",
        kernel=kernel,
        value=point.derived_tflops,
        unit="TFLOP/s",
        sm_clock_mhz=point.sm_clock_mhz,
        power_w=point.power_w,
        points=(position,),
        **_course(point.derived_tflops, measured.blocks),
    )


def memory_roof(measured: MeasuredStream, *, position: int) -> Roof:
    """The roof of one streaming kernel, whose point has this position in the report."""
    point = measured.point
    return Roof(
        kind="memory",
        dtype=point.dtype,
        regime=point.regime,
        level=point.level,
        kernel=point.kernel,
        value=point.derived_gbps,
        unit="GB/s",
        sm_clock_mhz=point.sm_clock_mhz,
        power_w=point.power_w,
        points=(position,),
        **({} if measured.blocks is None else _course(point.derived_gbps, measured.blocks)),
    )


def _course(value: float, blocks: BlockTiming) -> dict[str, float]:
    """Interval of the rate, and how it went from the first block to the last; a rate is the inverse of a time."""
    work = value * blocks.whole.ms
    first, last = work / blocks.first_ms, work / blocks.last_ms
    course = {"first_block": first, "last_block": last, "trend": (last - first) / first}
    if blocks.interval is not None:
        course |= {"ci_low": work / blocks.interval.high, "ci_high": work / blocks.interval.low}
        course["converged"] = blocks.interval.is_narrow(blocks.whole.ms)
    return course
