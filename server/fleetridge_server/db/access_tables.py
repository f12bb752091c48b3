"""Tables of tokens, sessions and messages to the webhook."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from fleetridge_server.db.column_types import RowId
from fleetridge_server.db.tables import Base
from fleetridge_server.db.verdict_tables import Alert


class StoredToken(Base):
    """
    What is known of one token; never the token itself. A row is never deleted, so that reports keep their sender.

    Attributes:
        name: for people.
        sha256: of the token's text.
        scopes: as they were given, sorted, with spaces between.
        cluster, node: the only ones that it may write about; null is any. A node needs its cluster.
        expires_at: null for never.
        last_used_at: give or take a minute.
        quarantined_at: since when its reports count for nothing; null where they count.
        quarantined_since: only reports that arrived from then on; null for all.
    """

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    sha256: Mapped[bytes] = mapped_column(unique=True)
    scopes: Mapped[str]
    cluster: Mapped[str | None]
    node: Mapped[str | None]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    quarantined_at: Mapped[datetime | None]
    quarantined_since: Mapped[datetime | None]


class StoredSession(Base):
    """
    A browser that showed a token once; never its cookie. It may do what the token may, while both hold.

    Attributes:
        sha256: of the cookie.
        token_id: the token that was shown.
    """

    __tablename__ = "sessions"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    sha256: Mapped[bytes] = mapped_column(unique=True)
    token_id: Mapped[int] = mapped_column(RowId, ForeignKey("tokens.id"))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class Notification(Base):
    """
    One message to the webhook.

    Attributes:
        message_id: sent to the receiver, the same on every try, so that it can leave out what it had already.
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
    An alert that is, or will be, sent to the webhook.

    Attributes:
        fired_by, resolved_by: notifications that say so; `resolved_by` is null until one says that it is over.
    """

    __tablename__ = "notified_alerts"

    alert_id: Mapped[int] = mapped_column(RowId, ForeignKey(Alert.id), primary_key=True, autoincrement=False)
    fired_by: Mapped[int] = mapped_column(RowId)
    resolved_by: Mapped[int | None] = mapped_column(RowId)

    __table_args__ = (Index(None, "resolved_by"),)
