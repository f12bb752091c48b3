"""Matrix products as points: one shape alone, or in blocks with rests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fleetridge.quantities import GIB
from fleetridge.report import GemmPoint
from fleetridge_agent.device.contract import OutOfDeviceMemoryError
from fleetridge_agent.device.product import Gemm
from fleetridge_agent.measure.timing import BlockTiming, Timing
from fleetridge_agent.measure.workbench import Call, Workbench
from fleetridge_agent.protocol import MEMORY_SHARE, REPLAY_BELOW_MS


@dataclass(frozen=True, slots=True)
class MeasuredGemm:
    """A product measured in blocks: its point, and the blocks behind it."""

    point: GemmPoint
    blocks: BlockTiming


def measure_shape(bench: Workbench, gemm: Gemm, label: str | None) -> GemmPoint | None:
    """
    Measure one shape, None where its calls are so short that they have to be replayed in batches.

    It says nothing of the regime: a large shape may run into the power limit where a small one does not.
    """
    require_room(bench, gemm.bytes)
    with bench.device.gemm(gemm, bench.fill) as launch:
        call = Call(launch, f"shapes {gemm.product}")
        call_ms = bench.warmed_up_ms(call)
        if bench.device.description.has_replay and call_ms < REPLAY_BELOW_MS:
            return None
        return gemm_point(gemm, bench.measure(call, call_ms=call_ms), label=label)


def measure_in_blocks(
    bench: Workbench, gemms: Sequence[Gemm], *, label: str, phase: str, looks: Sequence[int] | None = None
) -> list[MeasuredGemm]:
    """
    Measure shapes in alternating blocks with rests, after checking that the device multiplies right.

    The points carry no power: sensors show a block of 10 ms too late or not at all (an H200 130 to 160 W in a burst).

    Raises:
        DeviceFaultError: with reason `wrong_output`, when it does not.
    """
    require_room(bench, sum(gemm.bytes for gemm in gemms))
    for gemm in gemms:
        bench.device.check_output(gemm, bench.fill)
    with ExitStack() as operands:
        calls = [Call(operands.enter_context(bench.device.gemm(gemm, bench.fill)), phase) for gemm in gemms]
        timings = bench.measure_blocks(calls, looks=bench.pace.looks if looks is None else looks)
    regime = bench.device.description.burst_regime
    clock = bench.log.of(phase).sm_clock_mhz
    return [
        MeasuredGemm(gemm_point(gemm, blocks.whole, label=label, regime=regime, sm_clock_mhz=clock), blocks)
        for gemm, blocks in zip(gemms, timings, strict=True)
    ]


def require_room(bench: Workbench, needed_bytes: int) -> None:
    """
    See that operands of this size leave enough memory to others.

    Raises:
        OutOfDeviceMemoryError: they do not; the message says by how much.
    """
    allowed_bytes = room_bytes(bench)
    if needed_bytes > allowed_bytes:
        raise OutOfDeviceMemoryError(
            f"needs {needed_bytes / GIB:.1f} GiB, and {allowed_bytes / GIB:.1f} GiB may be used (half of what is "
            "free); choose smaller sizes, or free memory"
        )


def room_bytes(bench: Workbench) -> int:
    """Memory that operands may take."""
    return int(bench.device.free_bytes() * MEMORY_SHARE)


def gemm_point(gemm: Gemm, timing: Timing, **rest: object) -> GemmPoint:
    """Point of a product, with further fields of the wire as they are given; cold unless they say otherwise."""
    return GemmPoint.model_validate(
        {
            "kind": "gemm",
            "M": gemm.m,
            "K": gemm.k,
            "N": gemm.n,
            "dtype": gemm.product.dtype,
            "out_dtype": gemm.product.output,
            "fast_accumulation": gemm.product.fast_accumulation,
            "ms": timing.ms,
            "spread": timing.spread,
            "reps": timing.reps,
            "l2": "cold",
            **rest,
        }
    )
