"""Sessions of browsers: opened, found by the hash of their cookie, ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from fleetridge_server.store.session_models import StoredSession
from fleetridge_server.store.token_models import StoredToken

# A working day; who comes back the next morning shows the token once more.
LASTS = timedelta(hours=12)


def open_session(session: Session, sha256: bytes, token_id: int, at: datetime) -> None:
    """Keep a new session, and forget those that are over."""
    session.execute(delete(StoredSession).where(StoredSession.expires_at <= at))
    session.add(StoredSession(sha256=sha256, token_id=token_id, created_at=at, expires_at=at + LASTS))


def end_session(session: Session, sha256: bytes) -> None:
    """End a session; one that is not there has ended."""
    session.execute(delete(StoredSession).where(StoredSession.sha256 == sha256))


def token_of_session(session: Session, sha256: bytes, at: datetime) -> StoredToken | None:
    """The token that a session was opened with, whatever its state; None where the session is over."""
    query = (
        select(StoredToken)
        .join(StoredSession, StoredSession.token_id == StoredToken.id)
        .where(StoredSession.sha256 == sha256, StoredSession.expires_at > at)
    )
    return session.scalars(query).one_or_none()
