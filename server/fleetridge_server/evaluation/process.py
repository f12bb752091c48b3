"""
Evaluations in a process of their own, so that pages do not wait for Python while a large fleet is judged.

When a device is evaluated is the schedule's business, in the server; here is who does it. The process starts with the
first evaluation and is replaced when it is lost. It ends by itself when it has nothing to do, or has grown large.
"""

import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias, final

from fleetridge.own_program import own_program
from fleetridge_server.background import ChildProcess, start_child
from fleetridge_server.db.database import Database
from fleetridge_server.db.troubles import DatabaseTroubleError, DataFile
from fleetridge_server.telemetry.logs import is_logged_as_json
from fleetridge_server.verdicts.save import SupersededError
from fleetridge_server.verdicts.series import DeviceGroup

_PROGRAM = own_program("fleetridge_server.evaluation.worker_process")

# How often it is looked, at the end of a server, whether the evaluation in hand was given up.
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Start:
    """What the process has to know first."""

    database_url: str
    data_file: DataFile | None
    measured_every: timedelta | None
    is_logged_as_json: bool


class EvaluationError(RuntimeError):
    """A device could not be evaluated; the message says what came in between."""


class ProcessLostError(RuntimeError):
    """The process that evaluates ended, or did not start, which is no fault of the device; the message says how."""


Reply: TypeAlias = float | SupersededError | DatabaseTroubleError | EvaluationError
"""What travels back from the process: the seconds that an evaluation took, or why there is none."""


class BrokenOffError(RuntimeError):
    """The server ends, and with it the evaluation; the device is still due."""


@final
class EvaluationProcess:
    """Has devices evaluated by a process of its own, one after the other."""

    def __init__(self, database_url: str, database: Database, measured_every: timedelta | None) -> None:
        self._start = Start(database_url, database.data_file, measured_every, is_logged_as_json())
        self._running: ChildProcess | None = None
        self._is_closed = False
        self._evaluating = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Its number, where it runs."""
        return None if self._running is None else self._running.process.pid

    def evaluate(self, device_group: DeviceGroup) -> float:
        """
        Judge the gpus of one device as of now, and store what is said of them; the seconds that it took.

        Raises:
            BrokenOffError: `close` was called meanwhile.
            SupersededError: somebody else evaluated it, or this server's clock is behind.
            DatabaseTroubleError: the database does not answer.
            EvaluationError: it met a fault of our own; the device is still due.
            ProcessLostError: the process was lost; the device is still due, and the next evaluation starts another.
        """
        with self._evaluating:
            reply = self._asked(device_group)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        """End the process, and break off what it has in hand; that is still due."""
        self._is_closed = True
        while not self._evaluating.acquire(timeout=_LOOK_S):
            running = self._running
            if running is not None:
                running.process.kill()
        try:
            if self._running is not None:
                self._running.end()
                self._running = None
        finally:
            self._evaluating.release()

    def _asked(self, device_group: DeviceGroup) -> Reply:
        """The process's reply; one that ended by itself, before it was asked, is replaced."""
        was_there = self._running is not None
        try:
            if self._is_closed:
                raise BrokenOffError
            self._running = self._running or start_child(_PROGRAM, self._start)
            self._running.connection.send(device_group)
            reply: Reply = self._running.connection.recv()
        except (EOFError, OSError) as error:
            code = self._let_go()
            if was_there and code == 0:
                return self._asked(device_group)
            if self._is_closed:
                raise BrokenOffError from error
            raise ProcessLostError(f"could not be started ({error})" if code is None else _how_ended(code)) from error
        return reply

    def _let_go(self) -> int | None:
        """Exit code of the process, which is not used any more; None where there is none."""
        running, self._running = self._running, None
        return None if running is None else running.end()


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
