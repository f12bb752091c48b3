"""Streaming kernels as points: how fast the device reads and writes its own memory, and copies over its link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge.judged_kernels import READ_STREAM
from fleetridge.quantities import GIB, MIB
from fleetridge.report import StreamPoint
from fleetridge.report.roofs import Level
from fleetridge_agent.device.gemm_variants import STREAM_DTYPE
from fleetridge_agent.device.interface import DeviceDescription, Launch, OutOfDeviceMemoryError
from fleetridge_agent.measurement_protocol import (
    BUFFERS_IN_MEMORY,
    CACHES_PER_BUFFER,
    LARGEST_BUFFER_BYTES,
    LINK_BUFFER_BYTES,
    LINK_MS,
    STREAM_BLOCKS,
)
from fleetridge_agent.sweep.call_timer import Call, CallTimer
from fleetridge_agent.sweep.timing_statistics import BlockTiming, Timing, calls_that_fit

# Buffers that one call reads or writes: read a; write a; copy b = a; add c = a + b; triad a = b + s·c
# (McCalpin, STREAM, which counts every stream once and no traffic that a cache adds).
STREAM_BUFFERS = {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}

# Where memory is short the buffers are halved, but what is no multiple of the cache measures the cache. Where nobody
# knows the cache, it is taken to be one of the larger ones of gpus without much memory.
_FEWEST_CACHES_PER_BUFFER = 4
_UNKNOWN_CACHE_BYTES = 32 * MIB

# Directions of copies over the link, and the fewest calls of each.
_DIRECTIONS = ("h2d", "d2h")
_FEWEST_LINK_CALLS = 3
_MOST_LINK_CALLS = 1000

# Where three buffers of a quarter each would not leave room for others, they shrink and are not the judged ones.
_SHARE_OF_FREE = 0.25

# What stands for a device that does not say how much memory it has.
_UNKNOWN_MEMORY_BYTES = 8 * GIB

# A CPU reads an eighth of what a gpu does, in an eighth of its memory or less: its memory is some 100 times slower.
_LARGEST_BUFFER_BYTES_OF_CPU = 512 * MIB


@dataclass(frozen=True, slots=True)
class MeasuredStream:
    """A kernel measured in blocks: its point, and the blocks behind it; None where it was a single row of calls."""

    point: StreamPoint
    blocks: BlockTiming | None


@dataclass(frozen=True, slots=True)
class MeasuredStreams:
    """All kernels, and the size of the buffers with which they were measured."""

    buffer_bytes: int
    streams: tuple[MeasuredStream, ...]


def measure_streams(timer: CallTimer, buffer_bytes: int) -> MeasuredStreams:
    """
    Measure every kernel, with smaller buffers than asked for if those do not fit.

    Raises:
        OutOfDeviceMemoryError: not even buffers of a few times the cache fit.
    """
    smallest_bytes = _FEWEST_CACHES_PER_BUFFER * (timer.device.description.cache_bytes or _UNKNOWN_CACHE_BYTES)
    while buffer_bytes // 2 >= smallest_bytes:
        try:
            return MeasuredStreams(buffer_bytes, _measured_streams(timer, buffer_bytes))
        except OutOfDeviceMemoryError:
            buffer_bytes //= 2
        # Only here, as the error holds on to the buffers of its frames.
        timer.device.release()
    return MeasuredStreams(buffer_bytes, _measured_streams(timer, buffer_bytes))


def measure_read(timer: CallTimer, buffer_bytes: int, *, looks: Sequence[int]) -> MeasuredStream:
    """Measure the judged kernel alone, over three buffers of so many bytes; as a rate in GB/s."""
    with timer.device.streams(buffer_bytes, timer.fill) as launches:
        (read,) = _in_blocks(timer, {READ_STREAM: launches[READ_STREAM]}, buffer_bytes, looks)
    return read


def measure_links(timer: CallTimer) -> tuple[MeasuredStream, ...]:
    """Measure pinned copies over the link to the host, each direction for a fifth of a second."""
    with timer.device.links(LINK_BUFFER_BYTES) as launches:
        return tuple(_measured_link(timer, launches[kernel], kernel) for kernel in _DIRECTIONS)


def standard_bytes(description: DeviceDescription) -> int:
    """
    Size that the protocol asks for, from the memory and the cache that the device has, not from what is free today.

    The largest power of two of which six fit the memory, 4 GiB at most; more only where the cache asks for it.
    """
    largest = _LARGEST_BUFFER_BYTES_OF_CPU if description.kind == "cpu" else LARGEST_BUFFER_BYTES
    fitting = max((description.gpu.memory_bytes or _UNKNOWN_MEMORY_BYTES) // BUFFERS_IN_MEMORY, MIB)
    by_memory = min(largest, 1 << (fitting.bit_length() - 1))
    by_cache = -(-CACHES_PER_BUFFER * description.cache_bytes // MIB) * MIB
    return max(by_memory, by_cache)


def affordable_bytes(free_bytes: int) -> int:
    """Largest size of one buffer in bytes that leaves memory to others, in whole MiB."""
    return max(1, int(free_bytes * _SHARE_OF_FREE) // MIB) * MIB


def _measured_streams(timer: CallTimer, buffer_bytes: int) -> tuple[MeasuredStream, ...]:
    with timer.device.streams(buffer_bytes, timer.fill) as launches:
        judged = {READ_STREAM: launches[READ_STREAM]}
        others = {kernel: launches[kernel] for kernel in STREAM_BUFFERS if kernel != READ_STREAM}
        return (
            *_in_blocks(timer, judged, buffer_bytes, timer.pace.looks),
            *_in_blocks(timer, others, buffer_bytes, (STREAM_BLOCKS,)),
        )


def _in_blocks(
    timer: CallTimer, launches: dict[str, Launch], buffer_bytes: int, looks: Sequence[int]
) -> tuple[MeasuredStream, ...]:
    # Without a flush: each pass leaves nothing of itself in the cache, and a flush that wrote would be paid for by it.
    calls = [Call(launch, f"stream {kernel}", flushed=False) for kernel, launch in launches.items()]
    timings = timer.measure_blocks(calls, looks=looks)
    return tuple(
        MeasuredStream(
            _point(timer, kernel, STREAM_BUFFERS[kernel] * buffer_bytes, blocks.whole, phase=call.phase), blocks
        )
        for kernel, call, blocks in zip(launches, calls, timings, strict=True)
    )


def _measured_link(timer: CallTimer, launch: Launch, kernel: str) -> MeasuredStream:
    call = Call(launch, f"link {kernel}", flushed=False)
    call_ms = timer.quick_ms(call, 1).ms
    calls = calls_that_fit(call_ms, budget_ms=LINK_MS, at_least=_FEWEST_LINK_CALLS, at_most=_MOST_LINK_CALLS)
    timing = timer.repeated(call, calls, call_ms)
    return MeasuredStream(_point(timer, kernel, LINK_BUFFER_BYTES, timing, phase=call.phase, level="pcie"), None)


def _point(
    timer: CallTimer, kernel: str, moved_bytes: int, timing: Timing, *, phase: str, level: Level = "device"
) -> StreamPoint:
    return StreamPoint(
        kind="stream",
        kernel=kernel,
        dtype=STREAM_DTYPE,
        bytes=moved_bytes,
        level=level,
        ms=timing.ms,
        spread=timing.spread,
        reps=timing.reps,
        regime=timer.device.description.burst_regime,
        l2="cold",
        sm_clock_mhz=timer.log.of(phase).sm_clock_mhz,
    )
