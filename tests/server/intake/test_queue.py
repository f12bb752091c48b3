from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from fleetridge_server.intake import queue as room
from fleetridge_server.intake.queue import working
from fleetridge_server.intake.take import CallOutcome, Reply
from fleetridge_server.telemetry.metrics import RequestStats
from support.calls import a_call, status_of
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup

    from fleetridge_server.intake.queue import ReportQueue
    from fleetridge_server.intake.take import Call


def call(name: str, *, size_bytes: int = 10) -> Call:
    return a_call(b" " * size_bytes, request_id=name)


class HeldWorker:
    """Answers calls with their names, once the test lets it."""

    def __init__(self, *, is_free: bool = False) -> None:
        self.batches: list[list[str | None]] = []
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.is_closed = False
        if is_free:
            self.go_on.set()

    def take(self, calls: Sequence[Call]) -> list[CallOutcome]:
        """Wait for the test first."""
        self.batches.append([call.request_id for call in calls])
        self.entered.set()
        assert self.go_on.wait(PATIENCE_S)
        return [CallOutcome(Reply(200, str(call.request_id).encode()), RequestStats()) for call in calls]

    def close(self) -> None:
        """Take no more."""
        self.is_closed = True

    async def has_begun(self) -> None:
        """Wait until it has calls in hand."""
        assert await anyio.to_thread.run_sync(self.entered.wait, PATIENCE_S)


class BrokenWorker(HeldWorker):
    """Fails at its first calls."""

    def take(self, calls: Sequence[Call]) -> list[CallOutcome]:
        """Fail once, like any other otherwise."""
        answers = super().take(calls)
        if len(self.batches) == 1:
            raise LookupError("of these alone")
        return answers


class Callers:
    """Callers that wait for a queue, each with a call of its own."""

    def __init__(self) -> None:
        self.answers: dict[str | None, CallOutcome] = {}

    async def wait(self, queue: ReportQueue, own: Call) -> None:
        """Be one of them."""
        self.answers[own.request_id] = await queue.take(own)

    @property
    def told(self) -> dict[str | None, str]:
        """What those were told whose calls were taken."""
        return {
            name: answer.reply.content.decode()
            for name, answer in self.answers.items()
            if isinstance(answer.reply, Reply)
        }


async def five_wait(queue: ReportQueue, group: TaskGroup, workers: Sequence[HeldWorker], callers: Callers) -> None:
    """Have every worker begin with a call, and others wait behind; then all may go on."""
    for name in "abcde":
        group.start_soon(callers.wait, queue, call(name))
        await anyio.wait_all_tasks_blocked()
    for worker in workers:
        await worker.has_begun()
        group.start_soon(partial(anyio.to_thread.run_sync, worker.go_on.set))


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run what a test does; one that hangs fails."""

    async def bounded() -> None:
        with anyio.fail_after(PATIENCE_S):
            await scenario()

    anyio.run(bounded)


def batches_of(calls: Sequence[Call]) -> list[list[str | None]]:
    """How calls that wait for one before them are taken; each of them has to be told of itself."""
    worker, callers = HeldWorker(), Callers()

    async def scenario() -> None:
        async with working([worker]) as queue, anyio.create_task_group() as group:
            group.start_soon(callers.wait, queue, call("first"))
            await worker.has_begun()
            for own in calls:
                group.start_soon(callers.wait, queue, own)
            await anyio.wait_all_tasks_blocked()
            worker.go_on.set()

    run(scenario)
    names = ["first", *(own.request_id for own in calls)]
    assert callers.told == {name: name for name in names}
    assert worker.batches[0] == ["first"]
    return worker.batches[1:]


def test_calls_that_wait_are_taken_together_in_their_order() -> None:
    assert batches_of([call("a"), call("b"), call("c")]) == [["a", "b", "c"]]


def test_no_more_than_eight_calls_are_taken_together() -> None:
    """The others are next."""
    names = [str(number) for number in range(19)]

    assert batches_of([call(name) for name in names]) == [names[:8], names[8:16], names[16:]]


def test_calls_taken_together_have_no_more_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what the last of them has, which may be large by itself."""
    monkeypatch.setattr(room, "_MOST_BYTES", 100)
    calls = [call(name, size_bytes=size) for name, size in zip("abcdefg", (60, 39, 60, 1, 500, 500, 1), strict=True)]

    assert batches_of(calls) == [["a", "b", "c"], ["d", "e"], ["f"], ["g"]]


def test_two_workers_work_side_by_side() -> None:
    """Neither waits for the other."""
    workers, callers = [HeldWorker(), HeldWorker()], Callers()

    async def scenario() -> None:
        async with working(workers) as queue, anyio.create_task_group() as group:
            for name in "ab":
                group.start_soon(callers.wait, queue, call(name))
                await anyio.wait_all_tasks_blocked()
            for worker in workers:
                await worker.has_begun()
            for worker in workers:
                worker.go_on.set()

    run(scenario)

    assert sorted(batch for worker in workers for batch in worker.batches) == [["a"], ["b"]]
    assert callers.told == {"a": "a", "b": "b"}


def test_a_worker_that_breaks_costs_its_calls_a_500_and_works_on(caplog: pytest.LogCaptureFixture) -> None:
    """The log names their requests."""
    worker, callers = BrokenWorker(), Callers()

    async def scenario() -> None:
        async with working([worker]) as queue, anyio.create_task_group() as group:
            group.start_soon(callers.wait, queue, call("a"))
            await worker.has_begun()
            group.start_soon(callers.wait, queue, call("b"))
            await anyio.wait_all_tasks_blocked()
            worker.go_on.set()

    run(scenario)

    assert status_of(callers.answers["a"]) == 500
    assert callers.told == {"b": "b"}
    [record] = caplog.records
    assert "requests a " in record.getMessage()
    assert record.exc_info is not None


def test_at_the_end_whoever_waits_is_answered_and_every_worker_is_closed() -> None:
    """Those in hand, and those behind them."""
    workers, callers = [HeldWorker(), HeldWorker()], Callers()

    async def scenario() -> None:
        async with anyio.create_task_group() as group, working(workers) as queue:
            await five_wait(queue, group, workers, callers)

    run(scenario)

    assert callers.told == {name: name for name in "abcde"}
    assert [worker.is_closed for worker in workers] == [True, True]


def test_workers_are_closed_only_when_they_have_nothing_in_hand() -> None:
    """Else what they store at the end would be lost."""
    worker, callers, was_closed = HeldWorker(), Callers(), []

    async def let_go() -> None:
        await anyio.wait_all_tasks_blocked()
        was_closed.append(worker.is_closed)
        worker.go_on.set()

    async def scenario() -> None:
        async with anyio.create_task_group() as group, working([worker]) as queue:
            group.start_soon(callers.wait, queue, call("a"))
            await worker.has_begun()
            group.start_soon(let_go)

    run(scenario)

    assert was_closed == [False]
    assert callers.told == {"a": "a"}


def test_a_block_that_raises_leaves_nobody_waiting_and_no_worker_open() -> None:
    """Its error comes out of it as it is."""
    workers, callers = [HeldWorker(), HeldWorker()], Callers()

    async def block(group: TaskGroup) -> None:
        async with working(workers) as queue:
            await five_wait(queue, group, workers, callers)
            raise LookupError("of the block")

    async def scenario() -> None:
        async with anyio.create_task_group() as group:
            with pytest.raises(LookupError, match="of the block"):
                await block(group)

    run(scenario)

    assert callers.told == {name: name for name in "abcde"}
    assert [worker.is_closed for worker in workers] == [True, True]


def test_a_block_that_is_cancelled_leaves_nobody_waiting_and_no_worker_open() -> None:
    """As when the whole server is told to end at once."""
    worker, callers = HeldWorker(), Callers()

    async def block(is_waiting: anyio.Event, group: TaskGroup) -> None:
        async with working([worker]) as queue:
            for name in "abc":
                group.start_soon(callers.wait, queue, call(name))
                await anyio.wait_all_tasks_blocked()
            await worker.has_begun()
            is_waiting.set()
            await anyio.sleep_forever()

    async def scenario() -> None:
        is_waiting = anyio.Event()
        async with anyio.create_task_group() as group, anyio.create_task_group() as server:
            server.start_soon(block, is_waiting, group)
            await is_waiting.wait()
            server.cancel_scope.cancel()
            worker.go_on.set()

    run(scenario)

    assert callers.told == {name: name for name in "abc"}
    assert worker.is_closed


def test_a_caller_that_goes_away_while_it_waits_disturbs_nobody() -> None:
    """Its reports are taken in all the same: it does not know whether they were."""
    worker, callers = HeldWorker(), Callers()

    async def scenario() -> None:
        async with working([worker]) as queue, anyio.create_task_group() as group:
            group.start_soon(callers.wait, queue, call("first"))
            await worker.has_begun()
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(callers.wait, queue, call("gone"))
                await anyio.wait_all_tasks_blocked()
                leaving.cancel_scope.cancel()
            group.start_soon(callers.wait, queue, call("last"))
            await anyio.wait_all_tasks_blocked()
            worker.go_on.set()

    run(scenario)

    assert worker.batches == [["first"], ["gone", "last"]]
    assert callers.told == {"first": "first", "last": "last"}


def test_calls_that_meet_a_free_worker_do_not_wait_for_others() -> None:
    """Each is taken as it comes."""
    worker, callers = HeldWorker(is_free=True), Callers()

    async def scenario() -> None:
        async with working([worker]) as queue:
            for name in "ab":
                await callers.wait(queue, call(name))

    run(scenario)

    assert worker.batches == [["a"], ["b"]]
