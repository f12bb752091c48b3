"""Tokens: made, found by the hash of their text, revoked; and when they were last used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import Table, bindparam, or_, select, text, update
from sqlalchemy.orm import Session

from fleetridge_server.access.scope import Scope
from fleetridge_server.store.token_models import StoredToken

_TOKENS = cast("Table", StoredToken.__table__)

# Any number of 32 bits that no other pair of locks in this database begins with: the word "tokn".
_TOKEN_LOCKS = int.from_bytes(b"tokn", "big")


class UnknownTokenError(ValueError):
    """No token has the id; the message says where they are listed."""


class TokenNameError(ValueError):
    """The name is taken by another token."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """What a token is to be; see `StoredToken`."""

    name: str
    sha256: bytes
    scopes: frozenset[Scope]
    cluster: str | None = None
    node: str | None = None
    expires_at: datetime | None = None


def add_token(session: Session, new: NewToken, at: datetime) -> StoredToken:
    """
    Keep a new token.

    Raises:
        TokenNameError: its name is taken.
    """
    if session.scalars(select(StoredToken.id).where(StoredToken.name == new.name)).first() is not None:
        raise TokenNameError(
            f"a token named {new.name!r} is there already; choose another name (`fleetridge-server token list`)"
        )
    token = StoredToken(
        name=new.name,
        sha256=new.sha256,
        scopes=" ".join(sorted(new.scopes)),
        cluster=new.cluster,
        node=new.node,
        created_at=at,
        expires_at=new.expires_at,
    )
    session.add(token)
    session.flush()
    return token


def tokens(session: Session) -> Sequence[StoredToken]:
    """All tokens, those that were revoked included, oldest first."""
    return session.scalars(select(StoredToken).order_by(StoredToken.id)).all()


def is_any_token(session: Session) -> bool:
    """Whether there ever was a token: the last one's end does not open the server."""
    return session.scalars(select(StoredToken.id).limit(1)).first() is not None


def token_with(session: Session, sha256: bytes) -> StoredToken | None:
    """The token with this hash, whatever its state."""
    return session.scalars(select(StoredToken).where(StoredToken.sha256 == sha256)).one_or_none()


def locked_token(session: Session, token_id: int) -> StoredToken:
    """
    A token that is about to be changed; whoever stores reports with it has finished, or waits.

    Raises:
        UnknownTokenError: there is none.
    """
    _queue_for(session, token_id, "pg_advisory_xact_lock")
    query = select(StoredToken).where(StoredToken.id == token_id).with_for_update()
    token = session.scalars(query).one_or_none()
    if token is None:
        raise UnknownTokenError(f"no token has the id {token_id}; `fleetridge-server token list` shows all")
    return token


def shared_token(session: Session, token_id: int) -> StoredToken:
    """A token that reports are stored with; until they are, nobody changes it."""
    _queue_for(session, token_id, "pg_advisory_xact_lock_shared")
    return session.scalars(select(StoredToken).where(StoredToken.id == token_id)).one()


def _queue_for(session: Session, token_id: int, lock: str) -> None:
    """
    Wait for a token until the transaction ends; on SQLite there is one writer anyway.

    An advisory lock, as those who wait for it have their turn in order: a row that is never free of readers, which of a
    busy fleet's token is usual, would keep whoever wants to change it waiting for ever.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"SELECT {lock}(:space, :token)"), {"space": _TOKEN_LOCKS, "token": token_id})


def is_in_quarantine(token: StoredToken, received_at: datetime) -> bool:
    """Whether a report that arrived then with this token counts for nothing."""
    since = token.quarantined_since
    return token.quarantined_at is not None and (since is None or received_at >= since)


def revoke_token(session: Session, token_id: int, at: datetime) -> StoredToken:
    """
    End a token; one that has ended already keeps its time.

    Raises:
        UnknownTokenError: there is none.
    """
    token = locked_token(session, token_id)
    token.revoked_at = token.revoked_at or at
    return token


def note_uses(session: Session, uses: Mapping[int, datetime]) -> None:
    """Note when some tokens were last used; what another server saw later stays."""
    later = or_(_TOKENS.c.last_used_at.is_(None), _TOKENS.c.last_used_at < bindparam("at"))
    statement = update(_TOKENS).where(_TOKENS.c.id == bindparam("key"), later).values(last_used_at=bindparam("at"))
    # In the order of their keys, so that two servers do not wait for each other in a circle.
    session.execute(statement, [{"key": token_id, "at": uses[token_id]} for token_id in sorted(uses)])
