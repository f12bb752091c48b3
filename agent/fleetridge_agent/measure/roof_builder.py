"""Roofs from measured points and the blocks behind them."""

from __future__ import annotations

from collections.abc import Sequence

from fleetridge.report import Roof
from fleetridge_agent.measure.gemm import MeasuredGemm
from fleetridge_agent.measure.stream import MeasuredStream
from fleetridge_agent.measure.timing import BlockTiming


def compute_roof(measured: Sequence[MeasuredGemm], *, kernel: str, positions: Sequence[int]) -> Roof:
    """
    The roof under which several shapes of one way to multiply stayed: that of the fastest.

    Args:
        measured: shapes, at least one.
        kernel: `gemm_reference` or `gemm_best`.
        positions: of their points in the report.
    """
    fastest = max(range(len(measured)), key=lambda position: measured[position].point.derived_tflops)
    point = measured[fastest].point
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
        points=(positions[fastest],),
        **_course(point.derived_tflops, measured[fastest].blocks),
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
        **_course(point.derived_gbps, measured.blocks),
    )


def _course(value: float, blocks: BlockTiming) -> dict[str, float]:
    """How the rate went from the first block to the last; a rate is the inverse of a time."""
    first = value * blocks.whole.ms / blocks.first_ms
    last = value * blocks.whole.ms / blocks.last_ms
    return {"first_block": first, "last_block": last, "trend": (last - first) / first}
