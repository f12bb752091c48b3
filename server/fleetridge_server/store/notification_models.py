"""The tables of the outbox: what is told to a webhook, and how far that came."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from fleetridge_server.store.columns import RowId
from fleetridge_server.store.models import Base
from fleetridge_server.store.verdict_models import Alert


class Notification(Base):
    """
    One message to the webhook.

    Attributes:
        message_id: told to the receiver, the same on every try, so that it can leave out what it had already.
        made_at, ended_at: by this server's clock; `ended_at` is null while it is still to be delivered.
        body: as it is sent, the same bytes on every try.
        tries: begun so far.
        next_try_at: not earlier; while one server sends it, until when the others leave it alone.
        outcome: `sent` or `gave_up` once it has ended.
        problem: why the last try failed.
    """

    __tablename__ = "notifications"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    message_id: Mapped[UUID]
    made_at: Mapped[datetime]
    body: Mapped[str]
    tries: Mapped[int]
    next_try_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    problem: Mapped[str | None]

    __table_args__ = (Index(None, "ended_at"),)


class NotifiedAlert(Base):
    """
    An alert that is, or will be, told to the webhook.

    Attributes:
        fired_by, resolved_by: notifications that say so; `resolved_by` is null until one says that it is over.
    """

    __tablename__ = "notified_alerts"

    alert_id: Mapped[int] = mapped_column(RowId, ForeignKey(Alert.id), primary_key=True, autoincrement=False)
    fired_by: Mapped[int] = mapped_column(RowId)
    resolved_by: Mapped[int | None] = mapped_column(RowId)

    __table_args__ = (Index(None, "resolved_by"),)
