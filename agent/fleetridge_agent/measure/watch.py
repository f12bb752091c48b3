"""Watches for whoever wants the sweep to end, so that it makes room at once: somebody on the device, or a signal."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleetridge_agent.device.contract import ForeignUse
from fleetridge_agent.errors import SweepError

# Between two looks. Work is queued for 100 ms at most, so nothing is queued any more 200 ms after somebody arrives.
_INTERVAL_S = 0.100


class Watch:
    """
    Looks who uses the device, no more often than every 100 ms, between two pieces of work.

    Args:
        look: who else uses the device.
        heed: raises a SweepError where the sweep was asked to end; asked before every piece of work.
        is_forced: whether to go on in company, as the user asked.
        now: a clock that never runs backwards, in seconds.
    """

    def __init__(
        self,
        look: Callable[[], ForeignUse],
        *,
        heed: Callable[[], None] = lambda: None,
        is_forced: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._heed = heed
        self._is_forced = is_forced
        self._now = now
        self._looked_at: float | None = None

    def check(self) -> None:
        """
        End the sweep here if somebody has arrived or asked for the end.

        Raises:
            SweepError: with reason `preempted`.
        """
        self._heed()
        now = self._now()
        if self._is_forced or (self._looked_at is not None and now - self._looked_at < _INTERVAL_S):
            return
        self._looked_at = now
        if self._look().contended:
            raise SweepError(
                "somebody else began to use this gpu, and the sweep made room; run it again when the gpu is idle",
                reason="preempted",
            )
