"""The queue of calls that bring reports, and the workers that take them, processes or threads."""

import logging
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Protocol, final

import anyio
from anyio import CancelScope, CapacityLimiter, Event, WouldBlock
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from fleetridge.module_command import module_command
from fleetridge_server.background import Child
from fleetridge_server.db.database import Database
from fleetridge_server.db.troubles import DataFile
from fleetridge_server.intake.take import Call, CallOutcome, take
from fleetridge_server.problems import ProblemError, unavailable, unexpected
from fleetridge_server.telemetry.metrics import RequestStats

_PROGRAM = module_command("fleetridge_server.intake.worker_process")

# Senders wait for a third of this, and connections to a database that is gone are given up by then. A process that
# hangs (stopped, or at a disk that does not answer) would else keep its calls for ever, and the server from ending.
_ANSWER_TIMEOUT_S = 60

_log = logging.getLogger(__name__)


class Worker(Protocol):
    """Who takes in the reports of calls, some calls at a time."""

    def take(self, calls: Sequence[Call]) -> list[CallOutcome]:
        """Answer to each call, in their order."""

    def close(self) -> None:
        """End, and leave nothing behind."""


def answers_of(worker: Worker, calls: Sequence[Call]) -> list[CallOutcome]:
    """What a worker answers; where it breaks, that it does."""
    try:
        return worker.take(calls)
    except Exception:  # noqa: BLE001 # logged, whatever it is
        _log.exception("reports of requests %s could not be taken", ", ".join(str(call.request_id) for call in calls))
        return [CallOutcome(unexpected(), RequestStats())] * len(calls)


@final
class ThisProcess:
    """Takes in reports in a thread of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, calls: Sequence[Call]) -> list[CallOutcome]:
        """Answer to each call, in their order."""
        return take(self._database, calls)

    def close(self) -> None:
        """Leave the database to whoever opened it."""


@final
class WorkerProcess:
    """Has reports taken in by a process of its own, started by the first call and replaced when it is lost."""

    def __init__(self, database_url: str, data_file: DataFile | None) -> None:
        self.child = Child(database_url, data_file)

    def take(self, calls: Sequence[Call]) -> list[CallOutcome]:
        """Answer to each call, in their order; where the process is lost meanwhile, that they are to come again."""
        try:
            if self.child.process is not None and self.child.process.poll() is not None:
                _log.warning("a process that takes in reports is gone: %s", self._let_go(None))
            connection = self.child.connection(_PROGRAM)
            connection.send(list(calls))
            answers = _answers_from(connection)
        except (EOFError, OSError) as error:
            _log.error("the process that took in %d calls is lost: %s", len(calls), self._let_go(error))
            return [CallOutcome(_lost(), RequestStats())] * len(calls)
        return answers

    def close(self) -> None:
        """End the process, once it has done what it has in hand."""
        self.child.end()

    def _let_go(self, error: Exception | None) -> str:
        """End the process, if it has not ended by itself; how it did, in words."""
        code = self.child.end()
        return (
            f"it could not be started ({error})" if code is None else f"it ended with {code}; the next call starts it"
        )


def _answers_from(connection: Connection) -> list[CallOutcome]:
    if not connection.poll(_ANSWER_TIMEOUT_S):
        _log.error("a process that takes in reports has not answered for %g s; it is ended", _ANSWER_TIMEOUT_S)
        raise TimeoutError
    answers: list[CallOutcome] = connection.recv()
    return answers


def _lost() -> ProblemError:
    detail = (
        "the process that took in the reports ended, so that it is not known whether they are stored; send the same "
        "again after Retry-After seconds, what is stored then counts once"
    )
    return unavailable("busy", "The reports were not taken", detail)


# Calls of eight nodes of eight gpus are one transaction; beyond that no call gets cheaper, and all wait longer.
_MOST_CALLS = 8

# Several times as much as eight such calls, and far below what one call may have by itself: however calls come, a
# worker holds little more than it would of the largest one.
_MOST_BYTES = 2 * 1024**2


@dataclass
class _Waiting:
    call: Call
    is_answered: Event = field(default_factory=Event)
    answer: CallOutcome | None = None

    def tell(self, answer: CallOutcome) -> None:
        self.answer = answer
        self.is_answered.set()


@final
class ReportQueue:
    """Has calls taken in by workers; made by `working`."""

    def __init__(self, calls: MemoryObjectSendStream[_Waiting]) -> None:
        self._calls = calls

    async def take(self, call: Call) -> CallOutcome:
        """Wait until a call's reports are taken in; what came of it."""
        own = _Waiting(call)
        self._calls.send_nowait(own)
        await own.is_answered.wait()
        assert own.answer is not None  # noqa: S101 # it is answered
        return own.answer


@asynccontextmanager
async def working(workers: Sequence[Worker]) -> AsyncIterator[ReportQueue]:
    """A queue whose calls are taken in during the block; at its end whoever waits is answered, and the workers end."""
    put, calls = anyio.create_memory_object_stream[_Waiting](math.inf)
    threads = CapacityLimiter(len(workers))
    error_of_block: Exception | None = None
    try:
        async with calls, anyio.create_task_group() as group:
            for worker in workers:
                group.start_soon(_work, worker, calls.clone(), threads)
            async with put:
                try:
                    yield ReportQueue(put)
                except Exception as error:  # noqa: BLE001 # raised below, not as one of a group
                    error_of_block = error
    finally:
        for worker in workers:
            worker.close()
    if error_of_block is not None:
        raise error_of_block


async def _work(worker: Worker, calls: MemoryObjectReceiveStream[_Waiting], threads: CapacityLimiter) -> None:
    # A block that is cancelled takes what is beside it along, and yet whoever waits has to get an answer.
    with calls, CancelScope(shield=True):
        async for first in calls:
            batch = _batch(first, calls)
            answers = await anyio.to_thread.run_sync(answers_of, worker, [own.call for own in batch], limiter=threads)
            for own, answer in zip(batch, answers, strict=True):
                own.tell(answer)


def _batch(first: _Waiting, calls: MemoryObjectReceiveStream[_Waiting]) -> list[_Waiting]:
    """A call, and those behind it that are to be taken in with it."""
    batch, size_bytes = [first], len(first.call.body)
    while len(batch) < _MOST_CALLS and size_bytes < _MOST_BYTES:
        try:
            batch.append(calls.receive_nowait())
        except (WouldBlock, anyio.EndOfStream):
            break
        size_bytes += len(batch[-1].call.body)
    return batch
