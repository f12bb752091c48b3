"""
The loop that tells a webhook of alerts: messages are made of new ones, and the oldest is sent until it is taken.

Whatever is to be told lies in the database first, so that a server that dies loses none of it, and one of several
servers sends each.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timezone

from fleetridge_server.background import Task
from fleetridge_server.notifying.delivery import Delivered, deliver
from fleetridge_server.notifying.payload import message
from fleetridge_server.notifying.target import Target
from fleetridge_server.store import outbox
from fleetridge_server.store.database import Database

log = logging.getLogger(__name__)

# An evaluation takes longer than this to come about; asking the database costs nothing that shows.
_LOOK_EVERY_S = 5.0
_AFTER_TROUBLE_S = 30.0

Send = Callable[[Target, str, str], Delivered]


def notification_task(database: Database, target: Target, *, public_url: str) -> Task:
    """Telling a receiver as a task of the server; a message that is broken off while it is sent is sent again."""
    log.info("alerts are told to %s", target.host)
    notifier = Notifier(database, target, public_url=public_url)
    return Task("notifier", "alerts wait", notifier.tell_all, first_after_s=0.0, after_trouble_s=_AFTER_TROUBLE_S)


class Notifier:
    """
    Tells one receiver.

    Args:
        database: has this server's schema.
        target: the receiver.
        public_url: at which people reach this server.
        send: sends one message; stands in for the network in tests.
    """

    def __init__(self, database: Database, target: Target, *, public_url: str, send: Send = deliver) -> None:
        self._database = database
        self._target = target
        self._public_url = public_url
        self._send = send

    def tell_all(self, end: threading.Event) -> float:
        """
        Tell all that is due; seconds until there may be more.

        Raises:
            sqlalchemy.exc.DBAPIError: the database does not answer just now.
        """
        while not end.is_set() and self.turn():
            pass
        return _LOOK_EVERY_S

    def turn(self) -> bool:
        """Make a message of alerts that were not told yet, and send the oldest message; whether to go on at once."""
        now = datetime.now(timezone.utc)
        with self._database.reading() as session:
            is_new, is_due = outbox.has_untold(session), outbox.has_due(session, now)
        if is_new:
            self._make_message(now)
        return (is_new or is_due) and self._send_oldest()

    def _make_message(self, now: datetime) -> None:
        with self._database.writing() as session:
            alerts = outbox.untold(session)
            if alerts:
                outbox.add_message(session, alerts, message(alerts, public_url=self._public_url), now)

    def _send_oldest(self) -> bool:
        with self._database.writing() as session:
            claimed = outbox.claim_oldest(session, datetime.now(timezone.utc))
        if claimed is None:
            return False
        result = self._send(self._target, str(claimed.message_id), claimed.body)
        now = datetime.now(timezone.utc)
        with self._database.writing() as session:
            if result.problem is None:
                outbox.note_sent(session, claimed, now)
                return True
            has_given_up = outbox.note_failure(
                session,
                claimed,
                now,
                problem=result.problem,
                is_final=result.is_final,
                retry_after_s=result.retry_after_s,
            )
        what = "given up" if has_given_up else "kept to be tried again"
        log.warning("a message of alerts is %s after %d tries: %s", what, claimed.tries, result.problem)
        return has_given_up
