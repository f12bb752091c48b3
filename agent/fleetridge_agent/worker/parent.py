"""The worker's side of its two pipes: hears the order and the word, and says what there is to say."""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress

from fleetridge_agent.worker.messages import Remark, line_of

# prctl(2), PR_SET_PDEATHSIG of linux/prctl.h.
_SET_PARENT_DEATH_SIGNAL = 1

_STDIN, _STDOUT, _STDERR = 0, 1, 2

_CHUNK_BYTES = 65536

# Between two looks whether the end was asked for, while nothing is said.
_LOOK_S = 0.1


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends, however that ends; by default it is killed."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(number))


class Parent:
    """
    The process that started this one.

    Takes standard output for itself: what anything else prints there goes to standard error from now on.
    """

    def __init__(self) -> None:
        self._told = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
        self._heard = b""

    def hear(self, heed: Callable[[], None] = lambda: None) -> bytes:
        """
        The next line that the parent says.

        Args:
            heed: asked again and again meanwhile; what it raises ends the waiting.

        Raises:
            EOFError: it will say no more.
        """
        while b"\n" not in self._heard:
            heed()
            if not select.select([_STDIN], [], [], _LOOK_S)[0]:
                continue
            chunk = os.read(_STDIN, _CHUNK_BYTES)
            if not chunk:
                raise EOFError
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def tell(self, line: bytes) -> None:
        """Say a line; nobody may listen any more."""
        with suppress(BrokenPipeError):
            while line:
                line = line[os.write(self._told, line) :]


class RemarkHandler(logging.Handler):
    """Sends records of the log to the parent, which knows how they are to look."""

    def __init__(self, parent: Parent) -> None:
        super().__init__()
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record, a traceback included."""
        self._parent.tell(line_of(Remark(level=record.levelno, text=self.format(record))))
