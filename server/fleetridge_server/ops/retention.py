"""
Retention: what is dropped after which time, by command or once a day by a running server.

A round may run beside servers and be killed at any moment: what is dropped is dropped, and the next round goes on.
Reports, roofs and verdicts stay for good; no evaluation reads a document. Every server of a database has its daily
round, which makes the months of documents ahead and drops where that is asked for; two at once make way for each other.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, cast

from sqlalchemy import CursorResult, delete, func, select, tuple_
from sqlalchemy.orm import Session

from fleetridge_server.background import Task
from fleetridge_server.db.access_tables import Notification
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.document_months import Month, MonthsBusyError, drop_months, make_months, months_ahead
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Document, Report
from fleetridge_server.db.verdict_tables import EvaluationColumns, StoredEvaluation


def drop_documents(session: Session, before: datetime, most: int) -> int:
    """Drop some documents that arrived before a time, the oldest first; how many."""
    key = tuple_(Document.received_at, Document.report_id)
    oldest = select(Document.received_at, Document.report_id).where(Document.received_at < before)
    oldest = oldest.order_by(Document.received_at, Document.report_id).limit(most)
    return _count(session.execute(delete(Document).where(key.in_(oldest))))


def drop_notifications(session: Session, before: datetime, most: int) -> int:
    """Drop some messages to the webhook that were sent, or given up, before a time; how many."""
    oldest = select(Notification.id).where(Notification.ended_at < before).order_by(Notification.ended_at).limit(most)
    return _count(session.execute(delete(Notification).where(Notification.id.in_(oldest))))


def superseded_evaluations(session: Session, before: datetime) -> Sequence[int]:
    """Evaluations as of before a time that were not the last of their day."""
    found = select(
        StoredEvaluation.id, StoredEvaluation.device_id, StoredEvaluation.simulated, StoredEvaluation.as_of
    ).where(StoredEvaluation.historical.is_(False), StoredEvaluation.as_of < before)
    last: dict[tuple[object, ...], int] = {}
    superseded: list[int] = []
    for row in session.execute(found.order_by(StoredEvaluation.as_of, StoredEvaluation.id)):
        day = (row.device_id, row.simulated, row.as_of.date())
        if day in last:
            superseded.append(last[day])
        last[day] = row.id
    return superseded


def drop_evaluations(session: Session, evaluation_ids: Sequence[int]) -> int:
    """Drop some evaluations; how many there were."""
    session.execute(delete(EvaluationColumns).where(EvaluationColumns.evaluation_id.in_(evaluation_ids)))
    return _count(session.execute(delete(StoredEvaluation).where(StoredEvaluation.id.in_(evaluation_ids))))


def _count(result: Any) -> int:  # noqa: ANN401 # SQLAlchemy says less of it than it is
    return cast("CursorResult[Any]", result).rowcount


# A message that was sent long ago is of no use to anybody.
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
    documents_kept: timedelta | None,
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
            keeps its last documents. None keeps all.
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
        newest = session.scalar(select(func.max(Report.received_at)))
        day = datetime.combine((now - EVERY_HOUR_KEPT).date(), datetime.min.time(), now.tzinfo)
        superseded = superseded_evaluations(session, day)
    if newest is not None and documents_kept is not None:
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


def dropped_message(dropped: Dropped) -> str:
    """A round of retention in one line."""
    if dropped.before is None:
        return "nothing is stored yet, so that nothing is old"
    parts = [
        _documents(dropped),
        f"{dropped.notifications} messages to the webhook",
        f"{dropped.evaluations} evaluations that were not the last of their day",
    ]
    ended = "" if dropped.is_whole else "; stopped early, the next round goes on"
    return f"dropped {', '.join(parts)}{ended}"


def _documents(dropped: Dropped) -> str:
    until = f"{dropped.before:%Y-%m-%d %H:%M} UTC"
    if dropped.documents is not None:
        return f"{dropped.documents} documents that arrived before {until}"
    if dropped.months:
        return f"the documents of {', '.join(map(str, dropped.months))}"
    return f"no documents, since no month of them was over by {until}"


_log = logging.getLogger(__name__)

# A server that has just started has other things to do, and one that keeps failing does not come so far.
_FIRST_AFTER_S = 60.0
_EVERY_S = 24 * 3600.0
_AFTER_TROUBLE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Daily:
    """The daily round; documents are kept for some days, or (None) for good."""

    database_url: str
    documents_days: int | None

    def run_once(self, end: threading.Event) -> None:
        """
        One round, on connections of its own, which may take their time.

        Raises:
            sqlalchemy.exc.DBAPIError: the database is busy or out of reach.
            MonthsBusyError: another server is at it.
        """
        with closing(open_database(self.database_url, statement_timeout_ms=0)) as database:
            now = datetime.now(timezone.utc)
            make_months(database.engine, months_ahead(now))
            kept = None if self.documents_days is None else timedelta(days=self.documents_days)
            dropped = drop_old(database, kept, now, is_ending=end.is_set, pause=end.wait)
            if kept is not None or dropped.evaluations or dropped.notifications:
                _log.info("%s", dropped_message(dropped))


def daily_task(daily: Daily) -> Task:
    """Daily round as a task of the server."""

    def turn(end: threading.Event) -> float:
        try:
            daily.run_once(end)
        except MonthsBusyError as error:
            _log.info("%s", error)
        return _EVERY_S

    return Task("maintenance", "daily work waits", turn, first_after_s=_FIRST_AFTER_S, after_trouble_s=_AFTER_TROUBLE_S)
