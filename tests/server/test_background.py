from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fleetridge_server import background
from fleetridge_server.background import Task, in_background
from fleetridge_server.db.troubles import DataFileError
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable


def task(
    turn: Callable[[threading.Event], float], *, name: str = "worker", at_end: Callable[[], None] = lambda: None
) -> Task:
    return Task(name, "work waits", turn, first_after_s=0, after_trouble_s=0, at_end=at_end)


def is_running(name: str) -> bool:
    return name in {thread.name for thread in threading.enumerate()}


def test_a_task_takes_turns_with_the_pauses_that_it_asks_for_until_the_block_ends() -> None:
    """And says farewell, in its own thread."""
    turns, third, farewells = [], threading.Event(), []

    def turn(_end: threading.Event) -> float:
        turns.append(threading.current_thread().name)
        if len(turns) < 3:
            return 0.001
        third.set()
        return 3600.0

    with in_background([task(turn, at_end=lambda: farewells.append(threading.current_thread().name))]):
        assert third.wait(PATIENCE_S)

    assert turns == ["worker"] * 3
    assert farewells == ["worker"]
    assert not is_running("worker")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OperationalError("SELECT 1", {}, Exception("gone")), "work waits for the database: the database is busy"),
        (PoolTimeoutError("none left"), "work waits for the database: the database is busy"),
        (DataFileError("the file is gone; put it back"), "work waits for the database: the file is gone"),
        (ProgrammingError("SELECT x", {}, Exception("no x")), "work waits after an error of the server's own"),
        (ZeroDivisionError(), "work waits after an error of the server's own"),
    ],
)
def test_whatever_a_turn_meets_is_logged_and_the_next_one_comes(
    error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Trouble with the database in a sentence, anything else with its traceback."""
    errors, went_on = [error], threading.Event()

    def turn(_end: threading.Event) -> float:
        if errors:
            raise errors.pop()
        went_on.set()
        return 3600.0

    with in_background([task(turn)]):
        assert went_on.wait(PATIENCE_S)

    [record] = caplog.records
    assert told in record.getMessage()
    assert (record.exc_info is None) == ("for the database" in told)


def test_a_turn_that_does_not_end_holds_up_neither_the_end_nor_the_other_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All are waited for together."""
    monkeypatch.setattr(background, "_FAREWELL_S", 0.05)
    release, ended = threading.Event(), threading.Event()

    def endless(_end: threading.Event) -> float:
        release.wait(PATIENCE_S)
        return 3600.0

    def obedient(end: threading.Event) -> float:
        end.wait(PATIENCE_S)
        ended.set()
        return 3600.0

    with in_background([task(endless, name="endless"), task(endless, name="endless"), task(obedient)]):
        pass

    assert is_running("endless")
    assert ended.wait(PATIENCE_S)
    release.set()
