"""
Matrix products as points: one shape alone, in blocks with rests, or replayed in batches where calls are short.

Where the operands of products of microseconds lie in memory moves some rates by several per cent, so each is measured
over several fresh allocations and the median counts; the spread of such a point is that of the allocations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from fleetridge.quantities import GIB
from fleetridge.report import GemmPoint
from fleetridge_agent.device.gemm_variants import Gemm
from fleetridge_agent.device.interface import Copies, OutOfDeviceMemoryError
from fleetridge_agent.measurement_protocol import (
    ALLOCATIONS,
    CACHES_PER_ROTATION,
    COLD_REPLAYS,
    MEMORY_SHARE,
    REPLAY_BELOW_MS,
    REPLAY_CALLS,
    WARM_COPIES,
    WARM_REPLAYS,
)
from fleetridge_agent.sweep.call_timer import Call, CallTimer
from fleetridge_agent.sweep.timing_statistics import BlockTiming, Timing, timing_of


@dataclass(frozen=True, slots=True)
class MeasuredGemm:
    """A product measured in blocks: its point, and the blocks behind it."""

    point: GemmPoint
    blocks: BlockTiming


def measure_shape(timer: CallTimer, gemm: Gemm, label: str | None) -> GemmPoint | None:
    """
    Measure one shape, None where its calls are so short that they have to be replayed in batches.

    It says nothing of the regime: a large shape may run into the power limit where a small one does not.
    """
    require_memory(timer, gemm.bytes)
    with timer.device.gemm(gemm, timer.fill) as launch:
        call = Call(launch, f"shapes {gemm.variant}")
        call_ms = timer.warmed_up_ms(call)
        if timer.device.description.has_replay and call_ms < REPLAY_BELOW_MS:
            return None
        return gemm_point(gemm, timer.measure(call, call_ms=call_ms), label=label)


def measure_in_blocks(
    timer: CallTimer, gemms: Sequence[Gemm], *, label: str, phase: str, looks: Sequence[int] | None = None
) -> list[MeasuredGemm]:
    """
    Measure shapes in alternating blocks with rests, after checking that the device multiplies right.

    The points carry no power: sensors show a block of 10 ms too late or not at all (an H200 130 to 160 W in a burst).

    Raises:
        DeviceFaultError: with reason `wrong_output`, when it does not.
    """
    require_memory(timer, sum(gemm.bytes for gemm in gemms))
    for gemm in gemms:
        timer.device.check_output(gemm, timer.fill)
    with ExitStack() as operands:
        calls = [Call(operands.enter_context(timer.device.gemm(gemm, timer.fill)), phase) for gemm in gemms]
        timings = timer.measure_blocks(calls, looks=timer.pace.looks if looks is None else looks)
    regime = timer.device.description.burst_regime
    clock = timer.log.of(phase).sm_clock_mhz
    return [
        MeasuredGemm(gemm_point(gemm, blocks.whole, label=label, regime=regime, sm_clock_mhz=clock), blocks)
        for gemm, blocks in zip(gemms, timings, strict=True)
    ]


def replayed(timer: CallTimer, gemm: Gemm, rows: Sequence[int], label: str | None) -> Iterator[tuple[GemmPoint, ...]]:
    """
    Measure a product with several numbers of rows M, which share the operands of the largest.

    Yields:
        For each number of rows the point with a cold cache, and the one with a warm cache where the operands were used
        by the call before.
    """
    in_turn, allocations = _numbers(timer, gemm)
    with timer.device.copies(gemm, timer.fill, in_turn * allocations) as copies:
        for number in rows:
            with timer.log.phase(_phase(gemm)):
                points = _replayed_points(timer, copies, replace(gemm, m=number), label, (in_turn, allocations))
            yield points


def timed_singly(timer: CallTimer, gemm: Gemm, label: str | None) -> tuple[GemmPoint, ...]:
    """The same on a device whose calls need no launch: one call at a time, behind a flush and without."""
    require_memory(timer, gemm.bytes)
    with timer.device.gemm(gemm, timer.fill) as launch:
        cold = Call(launch, _phase(gemm))
        call_ms = timer.warmed_up_ms(cold)
        return (
            gemm_point(gemm, timer.measure(cold, call_ms=call_ms), label=label),
            gemm_point(gemm, timer.measure(replace(cold, flushed=False), call_ms=call_ms), label=label, l2="warm"),
        )


def require_memory(timer: CallTimer, needed_bytes: int) -> None:
    """
    See that operands of this size leave enough memory to others.

    Raises:
        OutOfDeviceMemoryError: they do not; the message says by how much.
    """
    allowed_bytes = available_bytes(timer)
    if needed_bytes > allowed_bytes:
        raise OutOfDeviceMemoryError(
            f"needs {needed_bytes / GIB:.1f} GiB, and {allowed_bytes / GIB:.1f} GiB may be used (half of what is "
            "free); choose smaller sizes, or free memory"
        )


def available_bytes(timer: CallTimer) -> int:
    """Memory in bytes that operands may take: a share of what is free, as the rest is somebody else's."""
    return int(timer.device.free_bytes() * MEMORY_SHARE)


def gemm_point(gemm: Gemm, timing: Timing, **rest: object) -> GemmPoint:
    """Point of a product, with further fields of the wire as they are given; cold unless they say otherwise."""
    return GemmPoint.model_validate(
        {
            "kind": "gemm",
            "M": gemm.m,
            "K": gemm.k,
            "N": gemm.n,
            "dtype": gemm.variant.dtype,
            "out_dtype": gemm.variant.output,
            "fast_accumulation": gemm.variant.fast_accumulation,
            "ms": timing.ms,
            "spread": timing.spread,
            "reps": timing.reps,
            "l2": "cold",
            **rest,
        }
    )


def _numbers(timer: CallTimer, gemm: Gemm) -> tuple[int, int]:
    """Copies that together exceed the cache, and how many such allocations fit."""
    wanted_bytes = CACHES_PER_ROTATION * timer.device.description.cache_bytes
    in_turn = max(1, math.ceil(wanted_bytes / gemm.bytes))
    require_memory(timer, in_turn * gemm.bytes)
    is_held = gemm.bytes <= timer.device.description.cache_bytes
    allocations = max(ALLOCATIONS, math.ceil(WARM_COPIES / in_turn)) if is_held else ALLOCATIONS
    return in_turn, min(allocations, available_bytes(timer) // (in_turn * gemm.bytes))


def _replayed_points(
    timer: CallTimer, copies: Copies, gemm: Gemm, label: str | None, numbers: tuple[int, int]
) -> tuple[GemmPoint, ...]:
    in_turn, allocations = numbers
    calls = in_turn * math.ceil(REPLAY_CALLS / in_turn)
    cold = [
        _per_call_ms(timer, copies, gemm, range(first, first + in_turn), calls, COLD_REPLAYS)
        for first in range(0, in_turn * allocations, in_turn)
    ]
    # Of operands so small that hundreds of copies take turns, a part of them stands for all.
    copies_there = in_turn * allocations
    warm = [
        _per_call_ms(timer, copies, gemm, (number,), REPLAY_CALLS, WARM_REPLAYS)
        for number in range(0, copies_there, max(1, copies_there // WARM_COPIES))
    ]
    return (
        gemm_point(gemm, _over_allocations(cold, calls * COLD_REPLAYS), label=label),
        gemm_point(gemm, _over_allocations(warm, REPLAY_CALLS * WARM_REPLAYS), label=label, l2="warm"),
    )


def _per_call_ms(timer: CallTimer, copies: Copies, gemm: Gemm, which: Sequence[int], calls: int, replays: int) -> float:
    launch = copies.batch(gemm.m, which, calls)
    return timer.quick_ms(Call(launch, _phase(gemm), flushed=False), replays).ms / calls


def _over_allocations(times_ms: Sequence[float], calls: int) -> Timing:
    return replace(timing_of(times_ms), reps=len(times_ms) * calls)


def _phase(gemm: Gemm) -> str:
    return f"decode {gemm.variant}"
