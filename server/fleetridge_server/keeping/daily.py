"""
What a running server does for its data once a day: months made ahead, and retention where it is asked for.

Every server of a database does so. A second round finds nothing left to do, and two at once make way for each other.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from fleetridge_server.background import Task
from fleetridge_server.keeping.retention import drop_old
from fleetridge_server.keeping.told import told_dropped
from fleetridge_server.store.database import open_database
from fleetridge_server.store.document_months import MonthsBusyError, make_months, months_ahead

_log = logging.getLogger(__name__)

# A server that has just started has other things to do, and one that keeps failing does not come so far.
_FIRST_AFTER_S = 60.0
_EVERY_S = 24 * 3600.0
_AFTER_TROUBLE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Daily:
    """
    The daily round.

    Attributes:
        documents_days: for how many days documents are kept; None for good.
    """

    database_url: str
    documents_days: int | None

    def run_once(self, end: threading.Event) -> None:
        """
        One round, on connections of its own, which may take their time.

        Raises:
            sqlalchemy.exc.DBAPIError: the database is busy or out of reach.
            MonthsBusyError: another server is at it.
        """
        database = open_database(self.database_url, statement_timeout_ms=0)
        try:
            now = datetime.now(timezone.utc)
            make_months(database.engine, months_ahead(now))
            if self.documents_days is not None:
                kept = timedelta(days=self.documents_days)
                _log.info("%s", told_dropped(drop_old(database, kept, now, is_ending=end.is_set, pause=end.wait)))
        finally:
            database.close()


def daily_task(daily: Daily) -> Task:
    """Daily round as a task of the server."""

    def turn(end: threading.Event) -> float:
        try:
            daily.run_once(end)
        except MonthsBusyError as error:
            _log.info("%s", error)
        return _EVERY_S

    return Task("keeper", "daily work waits", turn, first_after_s=_FIRST_AFTER_S, after_trouble_s=_AFTER_TROUBLE_S)
