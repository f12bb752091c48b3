"""Those who take in reports: this process, or one of its own that does nothing else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol, final

from fleetridge.own_program import own_program
from fleetridge_server.access.log_lines import is_logged_as_json
from fleetridge_server.child_process import ChildProcess, start_child
from fleetridge_server.course import Course
from fleetridge_server.problems import ProblemError, unavailable, unexpected
from fleetridge_server.receiving.call import Answer, Call
from fleetridge_server.receiving.taking import take
from fleetridge_server.store.data_file import DataFile
from fleetridge_server.store.database import Database

_PROGRAM = own_program("fleetridge_server.receiving.worker_process")

# Senders wait for a third of this, and connections to a database that is gone are given up by then. A process that
# hangs (stopped, or at a disk that does not answer) would else keep its calls for ever, and the server from ending.
_ANSWER_TIMEOUT_S = 60

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """What a worker's process has to know first."""

    database_url: str
    data_file: DataFile | None
    is_logged_as_json: bool


class Worker(Protocol):
    """Who takes in the reports of calls, some calls at a time."""

    def take(self, calls: Sequence[Call]) -> list[Answer]:
        """Answer to each call, in their order."""

    def close(self) -> None:
        """End, and leave nothing behind."""


def answers_of(worker: Worker, calls: Sequence[Call]) -> list[Answer]:
    """What a worker answers; where it breaks, that it does."""
    try:
        return worker.take(calls)
    except Exception:  # noqa: BLE001 # logged, whatever it is
        _log.exception("reports of requests %s could not be taken", ", ".join(str(call.request_id) for call in calls))
        return [Answer(unexpected(), Course())] * len(calls)


@final
class ThisProcess:
    """Takes in reports in a thread of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, calls: Sequence[Call]) -> list[Answer]:
        """Answer to each call, in their order."""
        return take(self._database, calls)

    def close(self) -> None:
        """Leave the database to whoever opened it."""


@final
class WorkerProcess:
    """
    Has reports taken in by a process of its own, which starts with the first call and is replaced when it is lost.

    Args:
        database_url: where to.
        data_file: the one that this process has open, where it is one.
    """

    def __init__(self, database_url: str, data_file: DataFile | None) -> None:
        self._start = Start(database_url, data_file, is_logged_as_json())
        self._running: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """Its number, where it runs."""
        return None if self._running is None else self._running.process.pid

    def take(self, calls: Sequence[Call]) -> list[Answer]:
        """Answer to each call, in their order; where the process is lost meanwhile, that they are to come again."""
        try:
            running = self._ready()
            running.connection.send(list(calls))
            answers = _answers_from(running.connection)
        except (EOFError, OSError) as error:
            _log.error("the process that took in %d calls is lost: %s", len(calls), self._let_go(error))
            return [Answer(_lost(), Course())] * len(calls)
        return answers

    def close(self) -> None:
        """End the process, once it has done what it has in hand."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _ready(self) -> ChildProcess:
        if self._running is not None and self._running.process.poll() is not None:
            _log.warning("a process that takes in reports is gone: %s", self._let_go(None))
        if self._running is None:
            self._running = start_child(_PROGRAM, self._start)
        return self._running

    def _let_go(self, error: Exception | None) -> str:
        """End the process, if it has not ended by itself; how it did, in words."""
        code = None if self._running is None else self._running.end()
        self._running = None
        return (
            f"it could not be started ({error})" if code is None else f"it ended with {code}; the next call starts it"
        )


def _answers_from(connection: Connection) -> list[Answer]:
    if not connection.poll(_ANSWER_TIMEOUT_S):
        _log.error("a process that takes in reports has not answered for %g s; it is ended", _ANSWER_TIMEOUT_S)
        raise TimeoutError
    answers: list[Answer] = connection.recv()
    return answers


def _lost() -> ProblemError:
    detail = (
        "the process that took in the reports ended, so that it is not known whether they are stored; send the same "
        "again after Retry-After seconds, what is stored then counts once"
    )
    return unavailable("busy", "The reports were not taken", detail)
