"""
Tokens as this process knows them, and when each was last used, so that few requests ask the database.

`KnownTokens` asks the database again after FRESH_S: every server refuses a revoked token (`require_valid`) that much
later at most, and none before the change is committed. `TokenUsage` gathers last uses, written once in a while.
"""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import cast, final

import anyio
import anyio.to_thread
from anyio import CapacityLimiter

from fleetridge_server.auth.permissions import Caller, Scope, allowed, unauthorized
from fleetridge_server.auth.tokens import is_any_token, note_uses, token_of_session, token_with
from fleetridge_server.db.access_tables import StoredToken
from fleetridge_server.db.database import ACCESS_THREADS, Database
from fleetridge_server.db.troubles import DATABASE_TROUBLES

# A node that posts has to be looked up once; a person's page of twenty requests, too.
FRESH_S = 2.0

# One for each node of a large fleet; some hundred bytes each.
_MOST_TOKENS = 20_000

_REMEDY = "make a token with `fleetridge-server token create`"


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token, and until when it holds; see `StoredToken`."""

    caller: Caller
    sha256: bytes
    expires_at: datetime | None
    revoked_at: datetime | None


def require_valid(token: KnownToken | None, now: datetime) -> KnownToken:
    """A token that is good. Raises ProblemError: 401, there is none, or it was revoked or has ended."""
    if token is None:
        raise unauthorized("token_unknown", f"this server has no such token; {_REMEDY}", invalid=True)
    if token.revoked_at is not None:
        raise unauthorized("token_revoked", f"this token was revoked; {_REMEDY}", invalid=True)
    if token.expires_at is not None and token.expires_at <= now:
        detail = f"this token ended at {token.expires_at.isoformat()}; {_REMEDY}"
        raise unauthorized("token_expired", detail, invalid=True)
    return token


@final
class KnownTokens:
    """Tokens of one database."""

    def __init__(self, database: Database, now_s: Callable[[], float]) -> None:
        self._database = database
        self._now_s = now_s
        self._limiter = CapacityLimiter(ACCESS_THREADS)
        self._asking = anyio.Lock()
        self._known: OrderedDict[bytes, tuple[KnownToken, float]] = OrderedDict()
        self._is_any = False
        self._none_at_s: float | None = None

    async def is_any(self) -> bool:
        """Whether there is, or ever was, a token. From then on this server asks for one until it ends."""
        if self._has_to_ask():
            async with self._asking:
                if self._has_to_ask():
                    asked_at_s = self._now_s()
                    self._is_any = await anyio.to_thread.run_sync(self._ask_any, limiter=self._limiter)
                    self._none_at_s = asked_at_s
        return self._is_any

    def has_heard_of(self, sha256: bytes) -> bool:
        """Whether there was such a token when it was last asked for."""
        return sha256 in self._known

    async def find(self, sha256: bytes) -> KnownToken | None:
        """The token with this hash, whatever its state; None where there is none."""
        fresh = self._fresh(sha256)
        if fresh is not None:
            return fresh
        async with self._asking:  # so that many requests of one caller ask once
            fresh = self._fresh(sha256)
            if fresh is not None:
                return fresh
            asked_at_s = self._now_s()
            found = await anyio.to_thread.run_sync(self._ask, sha256, limiter=self._limiter)
            if found is None:
                self._known.pop(sha256, None)
            else:
                self._keep(found, asked_at_s)
            return found

    def _has_to_ask(self) -> bool:
        return not (self._is_any or self._is_fresh(self._none_at_s))

    async def of_session(self, sha256: bytes, at: datetime) -> KnownToken | None:
        """The token that a session was opened with, by the hash of its cookie; None where the session is over."""
        return await anyio.to_thread.run_sync(self._ask_session, sha256, at, limiter=self._limiter)

    def _keep(self, token: KnownToken, at_s: float) -> None:
        self._known[token.sha256] = token, at_s
        self._known.move_to_end(token.sha256)
        if len(self._known) > _MOST_TOKENS:
            self._known.popitem(last=False)

    def _fresh(self, sha256: bytes) -> KnownToken | None:
        known = self._known.get(sha256)
        return known[0] if known is not None and self._is_fresh(known[1]) else None

    def _is_fresh(self, at_s: float | None) -> bool:
        return at_s is not None and self._now_s() - at_s < FRESH_S

    def _ask_any(self) -> bool:
        with self._database.reading() as session:
            return is_any_token(session)

    def _ask(self, sha256: bytes) -> KnownToken | None:
        with self._database.reading() as session:
            stored = token_with(session, sha256)
        # Of what an index finds the whole is compared, in a time that reveals nothing.
        return None if stored is None or not hmac.compare_digest(stored.sha256, sha256) else _known(stored)

    def _ask_session(self, sha256: bytes, at: datetime) -> KnownToken | None:
        with self._database.reading() as session:
            stored = token_of_session(session, sha256, at)
        return None if stored is None else _known(stored)


def _known(stored: StoredToken) -> KnownToken:
    scopes = allowed(cast("list[Scope]", stored.scopes.split()))
    return KnownToken(
        caller=Caller(stored.id, scopes, stored.cluster, stored.node, stored.name),
        sha256=stored.sha256,
        expires_at=stored.expires_at,
        revoked_at=stored.revoked_at,
    )


# Whoever asks when a token was last used thinks in days.
WRITTEN_EVERY_S = 60.0


@final
class TokenUsage:
    """Last uses that are not written yet; `writers` limits who may write at a time."""

    def __init__(self, database: Database, writers: CapacityLimiter) -> None:
        self._database = database
        self._writers = writers
        self._last: dict[int, datetime] = {}

    def note(self, token_id: int, at: datetime) -> None:
        """A token is used."""
        self._last[token_id] = at

    async def write(self) -> None:
        """Write what is not written; where the database does not take it, next time."""
        uses, self._last = self._last, {}
        try:
            if uses:
                await anyio.to_thread.run_sync(self._write, uses, limiter=self._writers)
        except DATABASE_TROUBLES:
            self._last = {**uses, **self._last}

    def _write(self, uses: dict[int, datetime]) -> None:
        with self._database.writing() as session:
            note_uses(session, uses)


@asynccontextmanager
async def writing_token_usage(
    uses: TokenUsage, *, pause: Callable[[float], Awaitable[None]] = anyio.sleep
) -> AsyncIterator[None]:
    """Write uses once in a while, and at the end."""

    async def keep_writing() -> None:
        while True:
            await pause(WRITTEN_EVERY_S)
            await uses.write()

    writing = asyncio.create_task(keep_writing())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await uses.write()
