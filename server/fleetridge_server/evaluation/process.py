"""
Evaluations in a process of their own, so that pages do not wait for Python while a large fleet is judged.

When a device is evaluated is the schedule's business, in the server; here is who does it. The process starts with the
first evaluation and is replaced when it is lost. It ends by itself when it has nothing to do, or has grown large.
"""

import signal
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TypeAlias, final

from fleetridge.module_command import module_command
from fleetridge_server.background import Child
from fleetridge_server.db.database import Database
from fleetridge_server.db.troubles import DatabaseTroubleError
from fleetridge_server.verdicts.save import SupersededError
from fleetridge_server.verdicts.series import DeviceGroup

_PROGRAM = module_command("fleetridge_server.evaluation.worker_process")

# How often it is looked, at the end of a server, whether the evaluation in hand was given up.
_LOOK_S = 0.05


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
        self.child = Child(database_url, database.data_file)
        self._measured_every = measured_every
        self._is_closed = False
        self._evaluating = threading.Lock()

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
            process = self.child.process
            if process is not None:
                process.kill()
        try:
            self.child.end()
        finally:
            self._evaluating.release()

    def _asked(self, device_group: DeviceGroup) -> Reply:
        """The process's reply; one that ended by itself, before it was asked, is replaced."""
        was_there = self.child.process is not None
        try:
            if self._is_closed:
                raise BrokenOffError
            connection = self.child.connection(_PROGRAM)
            connection.send((device_group, self._measured_every))
            reply: Reply = connection.recv()
        except (EOFError, OSError) as error:
            code = self.child.end()
            if was_there and code == 0:
                return self._asked(device_group)
            if self._is_closed:
                raise BrokenOffError from error
            raise ProcessLostError(f"could not be started ({error})" if code is None else _how_ended(code)) from error
        return reply


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
