"""
Tokens and browser sessions: how they are spelled, kept and looked up.

Text of a token, of which only the hash is kept:

    flr_ + 43 characters of 256 random bits + 6 characters of checksum

The characters are digits and letters, so that a double click takes the whole and a URL needs no escapes. The prefix and
the checksum let secret scanners find a token that leaked, and let a server tell a mistyped token from an unknown one
without asking the database. A session is a cookie of 256 random bits in place of a token; its hash is kept too.
"""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import Table, bindparam, delete, or_, select, text, update
from sqlalchemy.orm import Session

from fleetridge_server.auth.permissions import Scope
from fleetridge_server.db.access_tables import StoredSession, StoredToken
from fleetridge_server.telemetry.logs import PREFIX_OF_TOKENS

_RANDOM_BITS = 256
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BASE = len(_DIGITS)

# The fewest that hold 256 bits and CRC-32's 32.
_SECRET_CHARACTERS = 43
_CHECK_CHARACTERS = 6

# What a scanner for secrets looks for; \b would miss a token that stands right behind an underscore.
TOKEN_PATTERN = rf"{PREFIX_OF_TOKENS}[0-9A-Za-z]{{{_SECRET_CHARACTERS + _CHECK_CHARACTERS}}}(?![0-9A-Za-z])"

_TOKEN = re.compile(TOKEN_PATTERN)


def new_token() -> str:
    """A token that nobody had before."""
    body = PREFIX_OF_TOKENS + _in_digits(secrets.randbits(_RANDOM_BITS), _SECRET_CHARACTERS)
    return body + _checksum(body)


def is_token(text: str) -> bool:
    """Whether a text is spelled as a token is, to the last character."""
    return _TOKEN.fullmatch(text) is not None and _checksum(text[:-_CHECK_CHARACTERS]) == text[-_CHECK_CHARACTERS:]


def sha256_of(token: str) -> bytes:
    """What is stored of a token; a slow hash would add nothing where 256 random bits are to be guessed."""
    return hashlib.sha256(token.encode("ascii")).digest()


def _checksum(body: str) -> str:
    return _in_digits(zlib.crc32(body.encode("ascii")), _CHECK_CHARACTERS)


def _in_digits(number: int, characters: int) -> str:
    digits = []
    for _ in range(characters):
        number, digit = divmod(number, _BASE)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


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


def store_token(session: Session, new: NewToken, at: datetime) -> StoredToken:
    """Keep a new token. Raises TokenNameError: its name is taken."""
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
    """End a token; one that has ended already keeps its time. Raises UnknownTokenError: there is none."""
    token = locked_token(session, token_id)
    token.revoked_at = token.revoked_at or at
    return token


def note_uses(session: Session, uses: Mapping[int, datetime]) -> None:
    """Note when some tokens were last used; what another server saw later stays."""
    later = or_(_TOKENS.c.last_used_at.is_(None), _TOKENS.c.last_used_at < bindparam("at"))
    statement = update(_TOKENS).where(_TOKENS.c.id == bindparam("key"), later).values(last_used_at=bindparam("at"))
    # In the order of their keys, so that two servers do not wait for each other in a circle.
    session.execute(statement, [{"key": token_id, "at": uses[token_id]} for token_id in sorted(uses)])


_SECRET_BYTES = 32


def new_secret() -> str:
    """Content of a cookie that nobody had before."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def sha256_of_secret(secret: str) -> bytes:
    """What is stored of a session."""
    return hashlib.sha256(secret.encode()).digest()


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
