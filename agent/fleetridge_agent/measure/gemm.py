"""Matrix products as points: one shape alone, or judged shapes in alternating blocks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fleetridge.report import GemmPoint, PhaseEvidence, Regime
from fleetridge_agent.device.contract import OutOfDeviceMemoryError
from fleetridge_agent.device.product import Gemm
from fleetridge_agent.measure.protocol import BLOCKS, MEMORY_SHARE
from fleetridge_agent.measure.timing import BlockTiming, Timing
from fleetridge_agent.measure.workbench import Call, Workbench

_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class MeasuredGemm:
    """A product measured in blocks: its point, and the blocks behind it."""

    point: GemmPoint
    blocks: BlockTiming


def measure_shape(bench: Workbench, gemm: Gemm, label: str | None) -> GemmPoint:
    """
    Measure one shape.

    It says nothing of the regime: a large shape may run into the power limit where a small one does not.
    """
    _require_room(bench, [gemm])
    with bench.device.gemm(gemm, bench.fill) as launch:
        timing = bench.measure(Call(launch, f"shapes {gemm.product}"))
    return _point(gemm, timing, label=label, regime="unspecified", evidence=None)


def measure_in_blocks(bench: Workbench, gemms: Sequence[Gemm], *, label: str, phase: str) -> list[MeasuredGemm]:
    """
    Measure shapes in alternating blocks with rests, after checking that the device multiplies right.

    Raises:
        DeviceFaultError: with reason `wrong_output`, when it does not.
    """
    _require_room(bench, gemms)
    bench.device.check_output(gemms[0], bench.fill)
    with ExitStack() as operands:
        calls = [Call(operands.enter_context(bench.device.gemm(gemm, bench.fill)), phase) for gemm in gemms]
        timings = bench.measure_blocks(calls, blocks=BLOCKS)
    regime = bench.device.description.burst_regime
    evidence = bench.log.of(phase)
    return [
        MeasuredGemm(_point(gemm, blocks.whole, label=label, regime=regime, evidence=evidence), blocks)
        for gemm, blocks in zip(gemms, timings, strict=True)
    ]


def _require_room(bench: Workbench, gemms: Sequence[Gemm]) -> None:
    needed_bytes = sum(gemm.bytes for gemm in gemms)
    allowed_bytes = int(bench.device.free_bytes() * MEMORY_SHARE)
    if needed_bytes > allowed_bytes:
        raise OutOfDeviceMemoryError(
            f"needs {needed_bytes / _GIB:.1f} GiB, and {allowed_bytes / _GIB:.1f} GiB may be used (half of what is "
            "free); choose smaller sizes, or free memory"
        )


def _point(
    gemm: Gemm, timing: Timing, *, label: str | None, regime: Regime, evidence: PhaseEvidence | None
) -> GemmPoint:
    return GemmPoint(
        kind="gemm",
        M=gemm.m,
        K=gemm.k,
        N=gemm.n,
        dtype=gemm.product.dtype,
        out_dtype=gemm.product.out_dtype,
        fast_accumulation=gemm.product.fast_accumulation,
        label=label,
        ms=timing.ms,
        spread=timing.spread,
        reps=timing.reps,
        regime=regime,
        l2="cold",
        sm_clock_mhz=None if evidence is None else evidence.sm_clock_mhz,
        power_w=None if evidence is None else evidence.power_w,
    )
