"""
Background work of a server: tasks in threads, and child processes.

A task takes its turn again and again in a thread of its own. Trouble with the database makes it wait and go on; nothing
that it meets ends its thread. A child process talks with the server over a socket, its standard input, and ends with
it. Signals that end a server are kept from its children, which it ends itself once they have finished what they do.
"""

import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from fleetridge_server.db.troubles import DATABASE_TROUBLES, trouble

# A terminal and systemd send them to every process of a server, which still needs its own for what it has in hand.
_OF_THE_SERVER = (signal.SIGINT, signal.SIGTERM)

# One without work ends as soon as it is asked to; it may have to let go of a database that does not answer.
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
    Start a process, and send it what it has to know first.

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


# A step of any task takes less. What is broken off is stored whole or not at all, and taken up by the next server.
_FAREWELL_S = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """
    Work that comes again.

    Attributes:
        name: of its thread.
        waiting: what it says of itself where it has to wait, as in "evaluations wait".
        turn: does what is due, early enough once the event is set; seconds until the next turn.
        first_after_s: time before the first turn.
        after_trouble_s: time before the next turn where one failed.
        at_end: is called once there are no more turns.
    """

    name: str
    waiting: str
    turn: Callable[[threading.Event], float]
    first_after_s: float
    after_trouble_s: float
    at_end: Callable[[], None] = lambda: None


@contextmanager
def in_background(tasks: Iterable[Task]) -> Iterator[None]:
    """Carry out tasks during the block; at its end all of them are asked to end, and waited for together."""
    end = threading.Event()
    threads = [threading.Thread(target=_carry_out, args=(task, end), name=task.name, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        until_s = time.monotonic() + _FAREWELL_S
        for thread in threads:
            thread.join(max(0.0, until_s - time.monotonic()))


def _carry_out(task: Task, end: threading.Event) -> None:
    pause_s = task.first_after_s
    while not end.wait(pause_s):
        pause_s = _next_pause_s(task, end)
    task.at_end()


def _next_pause_s(task: Task, end: threading.Event) -> float:
    try:
        return task.turn(end)
    except DATABASE_TROUBLES as error:
        problem = trouble(error)
        if problem is None:
            _log.exception("%s after an error of the server's own", task.waiting)
        else:
            _log.warning("%s for the database: %s", task.waiting, problem)
    except Exception:  # noqa: BLE001 # logged, whatever it is
        _log.exception("%s after an error of the server's own", task.waiting)
    return task.after_trouble_s
