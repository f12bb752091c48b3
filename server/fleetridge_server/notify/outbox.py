"""
The outbox: messages to the webhook are made of alerts here, lent to the server that sends them, and marked done.

They are sent in the order in which they were made, one at a time, so that no alert is over before it began. Made-up
gpus' alerts are sent to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Select, and_, exists, select, text, update
from sqlalchemy.orm import Session

from fleetridge_server.db.access_tables import Notification, NotifiedAlert
from fleetridge_server.db.tables import Device
from fleetridge_server.db.verdict_tables import Alert
from fleetridge_server.notify.payload import AlertView
from fleetridge_server.verdicts.alerts import is_alert_in
from fleetridge_server.verdicts.roof_shapes import shape_of

# Alerts of one message: a body of some tens of kilobytes, which any receiver takes.
MOST_ALERTS = 64

# While one server sends, the others leave the message alone: longer than any try lasts.
LEASE = timedelta(seconds=60)

# Pauses between tries double from the first to the longest. A receiver that is down over a weekend still gets all.
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(minutes=15)
_GIVE_UP_AFTER = timedelta(days=3)
_MOST_DOUBLINGS = 10

# Any number that nothing else locks in this database: the first bytes of the word "notifier".
_MAKING_LOCK = int.from_bytes(b"notifier", "big") >> 1  # 63 bits


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that this server may send now, and nobody else."""

    id: int
    message_id: UUID
    body: str
    made_at: datetime
    tries: int


def has_unsent(session: Session) -> bool:
    """Whether there are alerts to make a message of."""
    return any(session.execute(select(exists(query))).scalar_one() for query in (_opened(), _over()))


def has_due(session: Session, now: datetime) -> bool:
    """Whether the oldest message may be sent now."""
    oldest = session.scalar(select(Notification.next_try_at).where(_is_pending()).order_by(Notification.id).limit(1))
    return oldest is not None and _has_come(oldest, now)


def unsent(session: Session) -> list[AlertView]:
    """
    Alerts that opened, or were resolved, since the last message; as many as one message takes.

    Empty where another server makes a message of them at this moment. The transaction is to end with `add_message`.
    """
    if not _is_only_maker(session):
        return []
    opened = _views(session, _opened(), MOST_ALERTS)
    return opened + _views(session, _over(), MOST_ALERTS - len(opened))


def add_message(session: Session, alerts: Sequence[AlertView], body: str, now: datetime) -> None:
    """Put a message of some alerts into the outbox."""
    note = Notification(message_id=uuid4(), made_at=now, body=body, tries=0, next_try_at=now)
    session.add(note)
    session.flush()
    session.add_all(NotifiedAlert(alert_id=alert.id, fired_by=note.id) for alert in alerts if alert.status == "firing")
    over = [alert.id for alert in alerts if alert.status == "resolved"]
    if over:
        chosen = NotifiedAlert.alert_id.in_(over)
        session.execute(update(NotifiedAlert).where(chosen).values(resolved_by=note.id))


def claim_oldest(session: Session, now: datetime) -> Claimed | None:
    """Oldest message that is not delivered, if it may be sent now."""
    query = select(Notification).where(_is_pending()).order_by(Notification.id).limit(1).with_for_update()
    note = session.scalar(query)
    if note is None or not _has_come(note.next_try_at, now):
        return None
    note.tries += 1
    note.next_try_at = now + LEASE
    return Claimed(note.id, note.message_id, note.body, note.made_at, note.tries)


def note_sent(session: Session, claimed: Claimed, now: datetime) -> None:
    """The receiver has it."""
    values = {"ended_at": now, "outcome": "sent", "problem": None}
    session.execute(update(Notification).where(Notification.id == claimed.id).values(values))


def note_failure(
    session: Session, claimed: Claimed, now: datetime, *, problem: str, is_final: bool, retry_after_s: float = 0.0
) -> bool:
    """The try failed: try later, after the pause that the receiver asks for, or give up; whether it was given up."""
    gives_up = is_final or now - claimed.made_at >= _GIVE_UP_AFTER
    wanted = timedelta(seconds=min(retry_after_s, _LONGEST_PAUSE.total_seconds()))
    values = {"problem": problem, "next_try_at": now + max(pause_after(claimed.tries), wanted)}
    if gives_up:
        values |= {"ended_at": now, "outcome": "gave_up"}
    is_same = and_(Notification.id == claimed.id, _is_pending())
    session.execute(update(Notification).where(is_same).values(values))
    return gives_up


def pause_after(tries: int) -> timedelta:
    """How long to wait after so many tries, at least one."""
    doublings = min(tries - 1, _MOST_DOUBLINGS)
    return min(_FIRST_PAUSE * (1 << doublings), _LONGEST_PAUSE)


def _has_come(next_try_at: datetime, now: datetime) -> bool:
    """Whether it is time; what waits longer than the longest pause was put off by a clock that was ahead."""
    return not now < next_try_at <= now + _LONGEST_PAUSE


def _is_pending() -> ColumnElement[bool]:
    return Notification.ended_at.is_(None)


def _opened() -> Select[Alert, Device]:
    """Open alerts that no message has, and that nobody silenced."""
    return (
        select(Alert, Device)
        .join(Device, Device.id == Alert.device_id)
        .outerjoin(NotifiedAlert, NotifiedAlert.alert_id == Alert.id)
        .where(Alert.simulated.is_(False), is_alert_in("open"), NotifiedAlert.alert_id.is_(None))
    )


def _over() -> Select[Alert, Device]:
    """Alerts of a message that are over, which no message says."""
    return (
        select(Alert, Device)
        .join(Device, Device.id == Alert.device_id)
        .join(NotifiedAlert, NotifiedAlert.alert_id == Alert.id)
        .where(NotifiedAlert.resolved_by.is_(None), Alert.resolved_at.is_not(None))
    )


def _is_only_maker(session: Session) -> bool:
    """Whether no other server makes a message at this moment; SQLite has one writer anyway."""
    if session.get_bind().dialect.name != "postgresql":
        return True
    query = text("SELECT pg_try_advisory_xact_lock(:key)")
    return bool(session.execute(query, {"key": _MAKING_LOCK}).scalar_one())


def _views(session: Session, query: Select[Alert, Device], most: int) -> list[AlertView]:
    found = session.execute(query.order_by(Alert.id).limit(most))
    return [shape_of(AlertView, alert, device=device.name, slug=device.slug) for alert, device in found]
