"""The table of sessions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from fleetridge_server.store.columns import RowId
from fleetridge_server.store.models import Base


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
