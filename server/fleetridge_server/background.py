"""
What a server does beside answering: tasks that take their turn again and again, each in a thread of its own.

A task that meets trouble with the database waits and goes on; nothing that it meets ends its thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fleetridge_server.store.trouble import DATABASE_TROUBLES, trouble

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
    """Carry out tasks during the block; at its end all of them are told to end, and waited for together."""
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
        told = trouble(error)
        if told is None:
            _log.exception("%s after an error of the server's own", task.waiting)
        else:
            _log.warning("%s for the database: %s", task.waiting, told)
    except Exception:  # noqa: BLE001 # logged, whatever it is
        _log.exception("%s after an error of the server's own", task.waiting)
    return task.after_trouble_s
