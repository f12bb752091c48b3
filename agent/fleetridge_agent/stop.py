"""
An orderly end on SIGINT and SIGTERM.

The first signal asks: the step under way is finished, what was measured is reported or spooled. The second insists.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fleetridge_agent.errors import SweepError

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether somebody asked us to end."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._by = ""

    @property
    def is_asked(self) -> bool:
        """Whether a signal came."""
        return self._asked.is_set()

    def ask(self, by: str) -> None:
        """Ask for the end, and say who does."""
        self._by = by
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Pause for some seconds, less if the end is asked for; True then."""
        return self._asked.wait(seconds)

    def check(self) -> None:
        """
        End a sweep here if that was asked for.

        Raises:
            SweepError: with reason `preempted`.
        """
        if self.is_asked:
            raise SweepError(f"ended by {self._by} before everything was measured; run it again", reason="preempted")


@contextmanager
def stopping_on_signals() -> Iterator[Stop]:
    """Ask for the end on the first SIGINT or SIGTERM, and raise KeyboardInterrupt on any further one."""
    stop = Stop()

    def on_signal(number: int, _: FrameType | None) -> None:
        if stop.is_asked:
            raise KeyboardInterrupt
        stop.ask(signal.Signals(number).name)

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
