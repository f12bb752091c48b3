"""
Products of microseconds, replayed in batches: decode steps, and whatever else is shorter than its own launch.

Where the operands lie in memory moves some of these rates by several per cent, so each is measured over several fresh
allocations and the median counts; the spread of such a point is that of the allocations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fleetridge.report import GemmPoint
from fleetridge_agent.device.contract import Copies
from fleetridge_agent.device.product import Gemm
from fleetridge_agent.measure.gemm import gemm_point, require_room, room_bytes
from fleetridge_agent.measure.timing import Timing, timing_of
from fleetridge_agent.measure.workbench import Call, Workbench
from fleetridge_agent.protocol import (
    ALLOCATIONS,
    CACHES_PER_ROTATION,
    COLD_REPLAYS,
    REPLAY_CALLS,
    WARM_COPIES,
    WARM_REPLAYS,
)


def replayed(bench: Workbench, gemm: Gemm, rows: Sequence[int], label: str | None) -> Iterator[tuple[GemmPoint, ...]]:
    """
    Measure a product with several numbers of rows M, which share the operands of the largest.

    Yields:
        For each number of rows the point with a cold cache, and the one with a warm cache where the operands were used
        by the call before.
    """
    in_turn, allocations = _numbers(bench, gemm)
    with bench.device.copies(gemm, bench.fill, in_turn * allocations) as copies:
        for number in rows:
            with bench.log.phase(_phase(gemm)):
                points = _measured(bench, copies, replace(gemm, m=number), label, (in_turn, allocations))
            yield points


def timed_singly(bench: Workbench, gemm: Gemm, label: str | None) -> tuple[GemmPoint, ...]:
    """The same on a device whose calls need no launch: one call at a time, behind a flush and without."""
    require_room(bench, gemm.bytes)
    with bench.device.gemm(gemm, bench.fill) as launch:
        cold = Call(launch, _phase(gemm))
        call_ms = bench.warmed_up_ms(cold)
        return (
            gemm_point(gemm, bench.measure(cold, call_ms=call_ms), label=label),
            gemm_point(gemm, bench.measure(replace(cold, flushed=False), call_ms=call_ms), label=label, l2="warm"),
        )


def _numbers(bench: Workbench, gemm: Gemm) -> tuple[int, int]:
    """Copies that together exceed the cache, and how many such allocations fit."""
    wanted_bytes = CACHES_PER_ROTATION * bench.device.description.cache_bytes
    in_turn = max(1, math.ceil(wanted_bytes / gemm.bytes))
    require_room(bench, in_turn * gemm.bytes)
    is_held = gemm.bytes <= bench.device.description.cache_bytes
    allocations = max(ALLOCATIONS, math.ceil(WARM_COPIES / in_turn)) if is_held else ALLOCATIONS
    return in_turn, min(allocations, room_bytes(bench) // (in_turn * gemm.bytes))


def _measured(
    bench: Workbench, copies: Copies, gemm: Gemm, label: str | None, numbers: tuple[int, int]
) -> tuple[GemmPoint, ...]:
    in_turn, allocations = numbers
    calls = in_turn * math.ceil(REPLAY_CALLS / in_turn)
    cold = [
        _per_call_ms(bench, copies, gemm, range(first, first + in_turn), calls, COLD_REPLAYS)
        for first in range(0, in_turn * allocations, in_turn)
    ]
    # Of operands so small that hundreds of copies take turns, a part of them stands for all.
    copies_there = in_turn * allocations
    warm = [
        _per_call_ms(bench, copies, gemm, (number,), REPLAY_CALLS, WARM_REPLAYS)
        for number in range(0, copies_there, max(1, copies_there // WARM_COPIES))
    ]
    return (
        gemm_point(gemm, _over_allocations(cold, calls * COLD_REPLAYS), label=label),
        gemm_point(gemm, _over_allocations(warm, REPLAY_CALLS * WARM_REPLAYS), label=label, l2="warm"),
    )


def _per_call_ms(bench: Workbench, copies: Copies, gemm: Gemm, which: Sequence[int], calls: int, replays: int) -> float:
    launch = copies.batch(gemm.m, which, calls)
    return bench.quick_ms(Call(launch, _phase(gemm), flushed=False), replays).ms / calls


def _over_allocations(times_ms: Sequence[float], calls: int) -> Timing:
    return replace(timing_of(times_ms), reps=len(times_ms) * calls)


def _phase(gemm: Gemm) -> str:
    return f"decode {gemm.product}"
