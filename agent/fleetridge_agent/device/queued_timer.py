"""Times of calls on a gpu, taken by the gpu itself while its queue never runs dry."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

import torch

from fleetridge_agent.device.contract import Launch

# Flushes that run while the host queues the first timed call; each takes longer than the host needs for one call.
_LEAD_FLUSHES = 2


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
