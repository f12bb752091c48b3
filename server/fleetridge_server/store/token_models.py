"""The table of tokens."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from fleetridge_server.store.columns import RowId
from fleetridge_server.store.models import Base


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
