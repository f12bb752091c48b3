"""
What comes of the request in hand, noted by whoever does a part of it: time in the database, and what became of reports.

The note belongs to the request's context, which goes along into the thread that does its work.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class Course:
    """
    What came of a request so far.

    Attributes:
        database_s: time that the database took.
        outcomes: reports by what became of them.
        lags_s: of each report that is new, from the end of its measurement to its arrival.
    """

    database_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    lags_s: list[float] = field(default_factory=list)


_current: ContextVar[Course | None] = ContextVar("course", default=None)


def begin_course() -> Course:
    """Note anew, from here on; each request has a context of its own."""
    course = Course()
    _current.set(course)
    return course


def note_part(part: Course) -> None:
    """Note what came of a part of the request that was done elsewhere."""
    course = _current.get()
    if course is not None:
        course.database_s += part.database_s
        course.outcomes.update(part.outcomes)
        course.lags_s += part.lags_s


@contextmanager
def in_database() -> Iterator[None]:
    """Note the time of the block as the database's, once, also where parts of it note theirs."""
    course = _current.get()
    if course is None:
        yield
        return
    before_s, began_s = course.database_s, time.perf_counter()
    try:
        yield
    finally:
        course.database_s = before_s + time.perf_counter() - began_s


def note_database(seconds: float) -> None:
    """Note time that the database took."""
    course = _current.get()
    if course is not None:
        course.database_s += seconds
