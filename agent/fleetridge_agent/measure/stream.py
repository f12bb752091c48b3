"""Streaming kernels as points: how fast the device reads and writes its own memory."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge.report import PhaseEvidence, StreamPoint
from fleetridge_agent.device.contract import OutOfDeviceMemoryError
from fleetridge_agent.measure.protocol import STREAM_BLOCKS
from fleetridge_agent.measure.timing import BlockTiming
from fleetridge_agent.measure.workbench import Call, Workbench

# Buffers that one call reads or writes: read a; write a; copy b = a; add c = a + b; triad a = b + s·c
# (McCalpin, STREAM, which counts every stream once and no traffic that a cache adds).
STREAM_BUFFERS = {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}

# The element does not matter to memory, so it is the same whatever is multiplied: one beta per gpu.
STREAM_DTYPE = "float32"

# Where memory is short the buffers are halved, but what is no multiple of the cache measures the cache. Where nobody
# knows the cache, it is taken to be one of the larger ones of gpus without much memory.
_FEWEST_CACHES_PER_BUFFER = 4
_UNKNOWN_CACHE_BYTES = 32 * 1024**2


@dataclass(frozen=True, slots=True)
class MeasuredStream:
    """A kernel measured in blocks: its point, and the blocks behind it."""

    point: StreamPoint
    blocks: BlockTiming


@dataclass(frozen=True, slots=True)
class MeasuredStreams:
    """All kernels, and the size of the buffers with which they were measured."""

    buffer_bytes: int
    streams: tuple[MeasuredStream, ...]


def measure_streams(bench: Workbench, buffer_bytes: int) -> MeasuredStreams:
    """
    Measure every kernel, with smaller buffers than asked for if those do not fit.

    Raises:
        OutOfDeviceMemoryError: not even buffers of a few times the cache fit.
    """
    smallest_bytes = _FEWEST_CACHES_PER_BUFFER * (bench.device.description.cache_bytes or _UNKNOWN_CACHE_BYTES)
    while buffer_bytes // 2 >= smallest_bytes:
        try:
            return MeasuredStreams(buffer_bytes, _measured(bench, buffer_bytes))
        except OutOfDeviceMemoryError:
            buffer_bytes //= 2
        # Only here, as the error holds on to the buffers of its frames.
        bench.device.release()
    return MeasuredStreams(buffer_bytes, _measured(bench, buffer_bytes))


def _measured(bench: Workbench, buffer_bytes: int) -> tuple[MeasuredStream, ...]:
    with bench.device.streams(buffer_bytes, bench.fill) as launches:
        calls = [Call(launches[kernel], f"stream {kernel}") for kernel in STREAM_BUFFERS]
        timings = bench.measure_blocks(calls, blocks=STREAM_BLOCKS)
    return tuple(
        MeasuredStream(_point(bench, kernel, buffer_bytes, blocks, bench.log.of(call.phase)), blocks)
        for kernel, call, blocks in zip(STREAM_BUFFERS, calls, timings, strict=True)
    )


def _point(
    bench: Workbench, kernel: str, buffer_bytes: int, blocks: BlockTiming, evidence: PhaseEvidence
) -> StreamPoint:
    return StreamPoint(
        kind="stream",
        kernel=kernel,
        dtype=STREAM_DTYPE,
        bytes=STREAM_BUFFERS[kernel] * buffer_bytes,
        ms=blocks.whole.ms,
        spread=blocks.whole.spread,
        reps=blocks.whole.reps,
        regime=bench.device.description.burst_regime,
        l2="cold",
        sm_clock_mhz=evidence.sm_clock_mhz,
        power_w=evidence.power_w,
    )
