"""The door: who calls, before anything else is looked at, and how often they may."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from math import ceil
from typing import final

from starlette.types import ASGIApp, Receive, Scope, Send

from fleetridge_server.access import open_server
from fleetridge_server.access.caller import ANYBODY, Caller
from fleetridge_server.access.credentials import no_token, refuse_token_in_address, refused, shown_token
from fleetridge_server.access.known_tokens import KnownToken, KnownTokens
from fleetridge_server.access.permission import OPEN_PATHS, is_open
from fleetridge_server.access.rates import Buckets, Rate, caller_at
from fleetridge_server.access.session_cookie import sha256_of_secret, shown_session
from fleetridge_server.access.small_bodies import bounded
from fleetridge_server.access.token_text import sha256_of
from fleetridge_server.access.uses import Uses
from fleetridge_server.problems import ProblemError, answer_to, of_database
from fleetridge_server.store.trouble import DATABASE_TROUBLES

# Twenty mistakes of a person who copies a token, then one every three seconds; a guesser needs 2^250 of them.
FAILURES = Rate(per_s=1 / 3, at_once=20)

_MINT = "make a token with `fleetridge-server token create`"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DoorRules:
    """
    What the settings say.

    Attributes:
        is_loopback: whether only this machine can reach the server.
        trust_network: whether everybody who reaches it may do everything, while there is no token.
        calls: that one caller may make.
    """

    is_loopback: bool
    trust_network: bool
    calls: Rate


@final
class Guard:
    """
    Middleware that lets requests pass whose caller is known, and says in the request's state who it is.

    Args:
        app: what answers.
        rules: of the settings.
        now: the clock.
        now_s: monotonic clock.
    """

    def __init__(
        self,
        app: ASGIApp,
        rules: DoorRules,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._rules = rules
        self._now = now
        self._calls = Buckets(rules.calls, now_s)
        self._failures = Buckets(FAILURES, now_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            refuse_token_in_address(scope["query_string"])
            caller = None if is_open(scope["path"]) else await self._admitted(scope)
        except ProblemError as problem:
            await answer_to(problem)(scope, receive, send)
            return
        except DATABASE_TROUBLES as error:
            trouble = of_database(error)
            if trouble is None:
                raise
            await answer_to(trouble)(scope, receive, send)
            return
        if caller is not None:
            scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, bounded(scope, receive), send)

    async def _admitted(self, scope: Scope) -> Caller:
        """
        Who calls, once they may.

        Raises:
            ProblemError: 400, 401, 403 or 429.
        """
        state, address = scope["app"].state, caller_at(scope["client"][0] if scope.get("client") else None)
        known: KnownTokens = state.known_tokens
        if not await known.is_any():
            open_server.require_friendly(scope, self._rules)
            self._require_rate(f"address {address}")
            return ANYBODY
        token = await self._token(scope, known, address)
        self._require_rate(f"token {token.caller.token_id}")
        uses: Uses = state.uses
        if token.caller.token_id is not None:
            uses.note(token.caller.token_id, self._now())
        return token.caller

    async def _token(self, scope: Scope, known: KnownTokens, address: str) -> KnownToken:
        """
        The token of a request, which holds.

        Raises:
            ProblemError: 401, or 429 where the address has shown too many that do not.
        """
        try:
            text = shown_token(scope["headers"])
            if text is None:
                return await self._token_of_session(scope, known)
            sha256 = sha256_of(text)
            wait_s = 0.0 if known.has_heard_of(sha256) else self._failures.wait_s(address)
            if wait_s > 0:
                raise _too_many(wait_s, "too many tokens that are none came from this address")
            return self._holding(await known.find(sha256))
        except ProblemError as problem:
            raise self._slowed(problem, address) from None

    async def _token_of_session(self, scope: Scope, known: KnownTokens) -> KnownToken:
        """
        The token that a browser showed when its user signed in.

        Raises:
            ProblemError: 401.
        """
        secret = shown_session(scope)
        if secret is None:
            raise no_token()
        token = await known.of_session(sha256_of_secret(secret), self._now())
        if token is None:
            raise refused("session_over", "this session is over; sign in again with a token")
        return self._holding(token)

    def _holding(self, token: KnownToken | None) -> KnownToken:
        return holding(token, self._now())

    def _slowed(self, problem: ProblemError, address: str) -> ProblemError:
        """The same problem, or 429 where the address has met it too often."""
        if "error=" not in problem.headers.get("WWW-Authenticate", ""):
            return problem  # nothing was shown that could have been a guess
        wait_s = self._failures.take(address)
        if wait_s > 0:
            return _too_many(wait_s, "too many tokens that are none came from this address")
        _log.warning("refused %s from %s", problem.problem.code, address)
        return problem

    def _require_rate(self, caller: str) -> None:
        wait_s = self._calls.take(caller)
        if wait_s > 0:
            raise _too_many(wait_s, "this caller makes more calls than one may")


def holding(token: KnownToken | None, now: datetime) -> KnownToken:
    """
    A token that holds.

    Raises:
        ProblemError: 401, there is none, or it does not.
    """
    if token is None:
        raise refused("token_unknown", f"this server has no such token; {_MINT}", invalid=True)
    if token.revoked_at is not None:
        raise refused("token_revoked", f"this token was revoked; {_MINT}", invalid=True)
    if token.expires_at is not None and token.expires_at <= now:
        raise refused("token_expired", f"this token ended at {token.expires_at.isoformat()}; {_MINT}", invalid=True)
    return token


def _too_many(wait_s: float, why: str) -> ProblemError:
    headers = {"Retry-After": str(max(1, ceil(wait_s)))}
    detail = f"{why}; send the same again after Retry-After seconds"
    return ProblemError(429, "too_many_requests", "Too many requests", detail, headers=headers)
