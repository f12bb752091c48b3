"""Times of calls on a gpu, taken by the gpu itself while its queue never runs dry."""

from __future__ import annotations

import torch

from fleetridge_agent.device.contract import Launch

# Flushes that run while the host queues the first timed call; each takes longer than the host needs for one call.
_LEAD_FLUSHES = 2


def queued_ms(launch: Launch, flush: Launch, calls: int) -> tuple[float, ...]:
    """
    Time of each call in ms, the cache flushed before each.

    Every call lies between two events of its own behind a flush, so the host has queued it by the time the gpu gets
    there; the host waits once, at the end.
    """
    pairs = [(_event(), _event()) for _ in range(calls)]
    for _ in range(_LEAD_FLUSHES):
        flush()
    for start, end in pairs:
        flush()
        start.record()
        launch()
        end.record()
    torch.cuda.synchronize()
    return tuple(start.elapsed_time(end) for start, end in pairs)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call] # torch's own
