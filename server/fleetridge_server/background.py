"""
Background work of a server: tasks in threads, and child processes.

A task takes its turn again and again in a thread of its own. Trouble with the database makes it wait and go on; nothing
that it meets ends its thread. A child process talks with the server over a socket, its standard input, and ends with
it. Signals that end a server are kept from its children, which it ends itself once they have finished what they do.
"""

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import final

from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.troubles import DATABASE_TROUBLES, DataFile, trouble
from fleetridge_server.telemetry.logs import is_logged_as_json, logs_to

# A terminal and systemd send them to every process of a server, which still needs its own for what it has in hand.
_OF_THE_SERVER = (signal.SIGINT, signal.SIGTERM)

# One without work ends as soon as it is asked to; it may have to let go of a database that does not answer.
_END_TIMEOUT_S = 5

# By how much it stands back: where all processors are busy, whoever asks for a page is served before reports are taken
# in or gpus are judged, which may wait. Of one processor that both want it has a quarter.
_NICENESS = 5


@dataclass(frozen=True, slots=True)
class ChildStart:
    """What a child process has to know first: the database, its file as the server has it open, and how to log."""

    database_url: str
    data_file: DataFile | None
    is_logged_as_json: bool


@final
class Child:
    """A child process with the server's database, started when it is first wanted, and again once it was ended."""

    def __init__(self, database_url: str, data_file: DataFile | None) -> None:
        self._start = ChildStart(database_url, data_file, is_logged_as_json())
        self._connection: Connection | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its number; None where it was not started."""
        return None if self.process is None else self.process.pid

    def connection(self, program: Sequence[str]) -> Connection:
        """
        Connection to it; it is started where there is none.

        Raises:
            OSError: there is no such program, or no room for a process.
        """
        if self._connection is None:
            self.process, self._connection = _started(program)
            with suppress(OSError):  # it has ended, which whoever asks it first finds out
                self._connection.send(self._start)
        return self._connection

    def end(self) -> int | None:
        """Have it end, once it has done what it has in hand; its exit code, None where it was not started."""
        process, connection = self.process, self._connection
        self.process = self._connection = None
        if process is None or connection is None:
            return None
        connection.close()  # upon which it ends by itself
        try:
            return process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _started(program: Sequence[str]) -> tuple[subprocess.Popen[bytes], Connection]:
    ours, its = socket.socketpair()
    with its:
        connection = Connection(ours.detach())
        try:
            with _signals_withheld():
                process = subprocess.Popen(program, stdin=its.fileno(), stdout=subprocess.DEVNULL)  # noqa: S603 # our own program
        except OSError:
            connection.close()
            raise
    return process, connection


def be_child(work: Callable[[Connection, Database], None]) -> None:
    """Work for a server, from within a child process, until that says no more or is gone; its requests come first."""
    with suppress(OSError):  # some sandboxes forbid it
        os.nice(_NICENESS)
    gc.freeze()  # nobody has to look again at the modules
    connection = Connection(sys.stdin.fileno())
    with suppress(EOFError, ConnectionError):
        start: ChildStart = connection.recv()
        with (
            logs_to(sys.stderr, log_format="json" if start.is_logged_as_json else "text", environ=os.environ),
            closing(open_database(start.database_url, data_file=start.data_file)) as database,
        ):
            work(connection, database)


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
