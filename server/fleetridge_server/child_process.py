"""
Processes that work for a server: each talks with it over a socket, its standard input, and is gone with it.

Signals that end a server are kept from them; it ends them when they have done what it has in hand.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

# A terminal and systemd send them to every process of a server, which still needs its own for what it has in hand.
_OF_THE_SERVER = (signal.SIGINT, signal.SIGTERM)

# One without work ends as soon as it is told so; it may have to let go of a database that does not answer.
_END_TIMEOUT_S = 5

# By how much it stands back: where all processors are busy, whoever asks for a page is served before reports are taken
# in or gpus are judged, which may wait. Of one processor that both want it has a quarter.
_NICENESS = 5


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process that was started, and may have ended."""

    process: subprocess.Popen[bytes]
    connection: Connection

    def end(self) -> int:
        """Have it end; its exit code."""
        self.connection.close()  # upon which it ends by itself
        try:
            return self.process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def start_child(program: Sequence[str], first: Any) -> ChildProcess:  # noqa: ANN401 # whatever its program takes
    """
    Start a process.

    Args:
        program: command that runs it.
        first: what it has to know first.

    Raises:
        OSError: there is no such program, or no room for a process.
    """
    ours, its = socket.socketpair()
    with its:
        connection = Connection(ours.detach())
        try:
            with _signals_withheld():
                process = subprocess.Popen(program, stdin=its.fileno(), stdout=subprocess.DEVNULL)  # noqa: S603 # our own program
        except OSError:
            connection.close()
            raise
    with suppress(OSError):  # it has ended, which whoever asks it first finds out
        connection.send(first)
    return ChildProcess(process, connection)


def stand_back() -> None:
    """Let whoever asks for a page come first, from within a process."""
    with suppress(OSError):  # some sandboxes forbid it
        os.nice(_NICENESS)


@contextmanager
def _signals_withheld() -> Iterator[None]:
    """Keep a process that is started meanwhile from what ends a server, from its first moment on: it inherits that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_SERVER)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
