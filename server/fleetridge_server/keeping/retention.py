"""
One round of retention: documents of old reports go, and what else nobody asks for any more.

It may run beside servers, and be killed at any moment: what is dropped is dropped, and the next round goes on. Reports,
roofs and verdicts stay for good; no evaluation reads a document.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from fleetridge_server.store.database import Database
from fleetridge_server.store.document_months import Month, drop_months
from fleetridge_server.store.retention import (
    drop_documents,
    drop_evaluations,
    drop_notifications,
    newest_arrival,
    superseded_evaluations,
)
from fleetridge_server.store.upserts import in_chunks

# A message that was sent long ago tells nobody anything.
NOTIFICATIONS_KEPT = timedelta(days=30)

# Of older days the last evaluation alone is kept; changes of verdicts stay for good.
EVERY_HOUR_KEPT = timedelta(days=90)

# Some hundredths of a second on SQLite, where whoever stores a report waits for it.
_ROWS_AT_ONCE = 200

# SQLite's writers ask for their turn again and again; a pause as long as the work gives everyone one.
_SHORTEST_PAUSE_S = 0.01


@dataclass(slots=True)
class Dropped:
    """
    What a round took away.

    Attributes:
        before: documents that arrived earlier went; on PostgreSQL those of whole months. None where nothing ever came.
        documents: how many, on SQLite; None on PostgreSQL, which does not count them.
        months: which months of them, on PostgreSQL.
        is_whole: whether the round came to its end.
    """

    before: datetime | None = None
    documents: int | None = None
    months: list[Month] = field(default_factory=list)
    notifications: int = 0
    evaluations: int = 0
    is_whole: bool = True


def drop_old(
    database: Database,
    documents_kept: timedelta,
    now: datetime,
    *,
    is_ending: Callable[[], bool] = lambda: False,
    pause: Callable[[float], object] = time.sleep,
) -> Dropped:
    """
    Drop what is older than it is kept.

    Args:
        database: where; on PostgreSQL its engine has no statement timeout.
        documents_kept: age from which on a document goes, counted up to the newest report: a fleet that fell silent
            keeps its last documents.
        now: by this machine's clock.
        is_ending: asked between two steps whether to stop there.
        pause: waits for a number of seconds.

    Raises:
        MonthsBusyError: another process does the same.
        sqlalchemy.exc.DBAPIError: the database is busy or out of reach; the next round goes on.
    """
    steps = _Steps(database, is_ending, pause)
    dropped = Dropped()
    with database.reading() as session:
        newest = newest_arrival(session)
        day = datetime.combine((now - EVERY_HOUR_KEPT).date(), datetime.min.time(), now.tzinfo)
        superseded = superseded_evaluations(session, day)
    if newest is not None:
        dropped.before = min(now, newest) - documents_kept
        steps.drop_documents(dropped, dropped.before)
    long_ago = now - NOTIFICATIONS_KEPT
    dropped.notifications = steps.repeat(lambda session: drop_notifications(session, long_ago, _ROWS_AT_ONCE))
    dropped.evaluations = steps.drop_evaluations(superseded)
    dropped.is_whole = not is_ending()
    return dropped


@dataclass(frozen=True, slots=True)
class _Steps:
    """Small transactions, one after the other, with room for those of others in between."""

    database: Database
    is_ending: Callable[[], bool]
    pause: Callable[[float], object]

    def drop_documents(self, dropped: Dropped, before: datetime) -> None:
        """Rows on SQLite, whole months on PostgreSQL."""
        if self.database.data_file is not None:
            dropped.documents = self.repeat(lambda session: drop_documents(session, before, _ROWS_AT_ONCE))
            return
        with closing(drop_months(self.database.engine, before)) as months:
            for month in months:
                dropped.months.append(month)
                if self.is_ending():
                    return

    def drop_evaluations(self, evaluation_ids: Sequence[int]) -> int:
        """Some evaluations; how many were still there."""
        total = 0
        for some in in_chunks(evaluation_ids, _ROWS_AT_ONCE):
            if not self.is_ending():
                with self.database.writing() as session:
                    total += drop_evaluations(session, some)
        return total

    def repeat(self, step: Callable[[Session], int]) -> int:
        """Take a step until it finds less than it could take, or somebody ends; how much all of them took."""
        total = 0
        while not self.is_ending():
            started = time.perf_counter()
            with self.database.writing() as session:
                taken = step(session)
            total += taken
            if taken < _ROWS_AT_ONCE:
                break
            self.pause(max(time.perf_counter() - started, _SHORTEST_PAUSE_S))
        return total
