"""Tokens for tests: made as the command makes them, and shown as callers do."""

from __future__ import annotations

from datetime import datetime, timezone

from fleetridge_server.auth.permissions import Scope
from fleetridge_server.auth.tokens import NewToken, new_token, sha256_of, store_token
from fleetridge_server.db.database import Database


def make_token(
    database: Database,
    *scopes: Scope,
    cluster: str | None = None,
    node: str | None = None,
    expires_at: datetime | None = None,
    name: str | None = None,
) -> str:
    """Text of a new token."""
    text = new_token()
    new = NewToken(name or text[-12:], sha256_of(text), frozenset(scopes), cluster, node, expires_at)
    with database.writing() as session:
        store_token(session, new, datetime.now(timezone.utc))
    return text


def bearer(token: str) -> dict[str, str]:
    """Headers that show a token."""
    return {"Authorization": f"Bearer {token}"}
