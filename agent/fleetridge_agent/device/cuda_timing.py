"""Timing on a gpu by CUDA events, and batches of calls replayed as CUDA graphs, without the host in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import replace

import torch

from fleetridge_agent.device.gemm_variants import Fill, Gemm
from fleetridge_agent.device.interface import Launch, UnsupportedError
from fleetridge_agent.device.kernels import Multiply, device_errors, gemm_operands

# Flushes that run while the host queues the first timed call; each takes longer than the host needs for one call.
_LEAD_FLUSHES = 2

# Calls before a recording: libraries load kernels and choose plans on the first, which no recording may contain.
_CALLS_AHEAD = 2


def queued_ms(launch: Launch, flush: Launch, calls: int, *, flushed: bool = True) -> tuple[float, ...]:
    """
    Time of each call in ms, the cache flushed before each unless `flushed` is False.

    Every call lies between two events of its own behind a flush or the calls before it, so the host has queued it by
    the time the gpu gets there; the host waits once, at the end.
    """
    pairs = [(_event(), _event()) for _ in range(calls)]
    for _ in range(_LEAD_FLUSHES):
        flush()
    for start, end in pairs:
        if flushed:
            flush()
        start.record()
        launch()
        end.record()
    torch.cuda.synchronize()
    return tuple(start.elapsed_time(end) for start, end in pairs)


def windows_ms(launch: Launch, calls: int, *, ahead: int) -> Generator[float, None, None]:
    """Time in ms of each window of so many calls back to back, with up to `ahead` windows queued."""
    marks = deque([_event()])
    marks[0].record()
    try:
        while True:
            while len(marks) <= ahead:
                for _ in range(calls):
                    launch()
                marks.append(_event())
                marks[-1].record()
            start = marks.popleft()
            marks[0].synchronize()
            yield start.elapsed_time(marks[0])
    finally:
        torch.cuda.synchronize()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call] # torch's own


class ReplayedCopies:
    """Copies of the operands of one product; satisfies `interface.Copies`."""

    def __init__(self, gemm: Gemm, fill: Fill, count: int, device: torch.device) -> None:
        self._gemm = gemm
        self._operands = [
            gemm_operands(gemm, replace(fill, seed=fill.seed + number), device) for number in range(count)
        ]

    def batch(self, rows: int, which: Sequence[int], calls: int) -> Launch:
        """Record the calls and give back their replay."""
        products = [self._operands[number].with_rows(rows) for number in which]
        with device_errors():
            try:
                return _recorded(products, calls)
            except torch.cuda.OutOfMemoryError:
                raise
            except RuntimeError as error:
                # A call that cannot be recorded says so with an error of CUDA that costs nothing but the recording.
                raise UnsupportedError(f"calls of {self._gemm.variant} cannot be recorded: {error}") from error


def _recorded(products: Sequence[Multiply], calls: int) -> Launch:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch's own
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for product in products[:_CALLS_AHEAD]:
            product()
        stream.synchronize()
        # Not by torch.cuda.graph, which collects garbage and empties the allocator each time: tens of milliseconds.
        graph.capture_begin()
        try:
            for number in range(calls):
                products[number % len(products)]()
        finally:
            graph.capture_end()
    return graph.replay
