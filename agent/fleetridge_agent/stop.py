"""
An orderly end on SIGINT, SIGTERM and SIGHUP.

The first signal asks: the step under way is finished, what was measured is reported or spooled. The second insists.
"""

from __future__ import annotations

import logging
import queue
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from fleetridge_agent.errors import PreemptedError

log = logging.getLogger(__name__)

# A terminal that is closed sends the last; a program told to ignore it (nohup) goes on doing so.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """
    Whether somebody asked us to end.

    A signal may come while this very thread is about to pause. Of the tools of the standard library only SimpleQueue
    is made to be touched again then; an Event, whose lock the thread already holds, would wait for itself.
    """

    def __init__(self) -> None:
        self._wakings: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_asked = False
        self._by = ""

    @property
    def is_asked(self) -> bool:
        """Whether a signal came."""
        return self._is_asked

    def ask(self, by: str) -> None:
        """Ask for the end, and say who does."""
        self._by = by
        self._is_asked = True
        self._wakings.put(None)

    def wait(self, seconds: float) -> bool:
        """Pause for some seconds, less if the end is asked for; True then."""
        if not self._is_asked:
            with suppress(queue.Empty):
                self._wakings.get(timeout=max(0.0, seconds))
                self._wakings.put(None)  # for whoever else pauses
        return self._is_asked

    def check(self) -> None:
        """
        End a sweep here if that was asked for.

        Raises:
            PreemptedError: it was.
        """
        if self.is_asked:
            raise PreemptedError(f"ended by {self._by} before everything was measured; run it again")


@contextmanager
def stopping_on_signals() -> Iterator[Stop]:
    """Ask for the end on the first of these signals, and raise KeyboardInterrupt on any further one."""
    stop = Stop()

    def on_signal(number: int, _: FrameType | None) -> None:
        """Ask for the end; raise KeyboardInterrupt where it was asked for already."""
        if stop.is_asked:
            raise KeyboardInterrupt
        stop.ask(signal.Signals(number).name)

    is_hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heeded = [number for number in _SIGNALS if not (number == signal.SIGHUP and is_hangup_ignored)]
    before = {number: signal.signal(number, on_signal) for number in heeded}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
