"""The queue of calls that bring reports: whoever waits is taken in together with the others by the next free worker."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import final

import anyio
from anyio import CancelScope, CapacityLimiter, Event, WouldBlock
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from fleetridge_server.receiving.call import Answer, Call
from fleetridge_server.receiving.workers import Worker, answers_of

# Calls of eight nodes of eight gpus are one transaction; beyond that no call gets cheaper, and all wait longer.
_MOST_CALLS = 8

# Several times as much as eight such calls, and far below what one call may have by itself: however calls come, a
# worker holds little more than it would of the largest one.
_MOST_BYTES = 2 * 1024**2


@dataclass
class _Waiting:
    call: Call
    is_answered: Event = field(default_factory=Event)
    answer: Answer | None = None

    def tell(self, answer: Answer) -> None:
        self.answer = answer
        self.is_answered.set()


@final
class ReportQueue:
    """Has calls taken in by workers; made by `working`."""

    def __init__(self, calls: MemoryObjectSendStream[_Waiting]) -> None:
        self._calls = calls

    async def take(self, call: Call) -> Answer:
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
    # A block that is cancelled takes what is beside it along, and yet whoever waits has to be told.
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
