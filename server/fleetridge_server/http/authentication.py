"""
Authentication of requests: who calls, before anything else is looked at, and how often they may.

A server without any token answers everybody who reaches it, but only if it listens on this machine alone or its
operator trusts the network. A browser on this machine is reached by every page that it shows: pages of other sites may
neither send anything here nor read under a host name that they made point here.
"""

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from math import ceil
from typing import Annotated, final
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetridge_server.auth.permissions import (
    ANYBODY,
    OPEN_PATHS,
    Caller,
    is_open,
    scope_missing,
    scope_of,
    unauthorized,
)
from fleetridge_server.auth.token_cache import KnownToken, KnownTokens, TokenUsage, require_valid
from fleetridge_server.auth.tokens import TOKEN_PATTERN, is_token, sha256_of, sha256_of_secret
from fleetridge_server.db.troubles import DATABASE_TROUBLES
from fleetridge_server.http.answers import answer_to
from fleetridge_server.http.rate_limits import Buckets, CallRate, bounded, caller_at
from fleetridge_server.problems import ProblemError, of_database

Headers = Sequence[tuple[bytes, bytes]]

COOKIE = "fleetridge_session"
_LONGEST_COOKIE = 200

# Twenty mistakes of a person who copies a token, then one every three seconds; a guesser needs 2^250 of them.
FAILURES = CallRate(per_s=1 / 3, at_once=20)

_TOKEN_ANYWHERE = re.compile(TOKEN_PATTERN.encode("ascii"))

_READING_METHODS = frozenset({"GET", "HEAD"})
_SAFE_METHODS = _READING_METHODS | {"OPTIONS"}

_ASK = "an administrator makes one with `fleetridge-server token create`"
_REMEDY = "make a token with `fleetridge-server token create`, then every caller needs one"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """
    What the settings say.

    Attributes:
        is_loopback: whether only this machine can reach the server.
        trust_network: whether everybody who reaches it may do everything, while there is no token.
        calls: that one caller may make.
    """

    is_loopback: bool
    trust_network: bool
    calls: CallRate


@final
class Authentication:
    """Middleware that lets requests pass whose caller is known, and says in the request's state who it is."""

    def __init__(
        self,
        app: ASGIApp,
        rules: AuthSettings,
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
        """Who calls, once they may. Raises ProblemError: 400, 401, 403 or 429."""
        state, address = scope["app"].state, caller_at(scope["client"][0] if scope.get("client") else None)
        known: KnownTokens = state.known_tokens
        if not await known.is_any():
            require_trusted_without_token(scope, self._rules)
            self._require_rate(f"address {address}")
            return ANYBODY
        token = await self._token(scope, known, address)
        self._require_rate(f"token {token.caller.token_id}")
        uses: TokenUsage = state.uses
        if token.caller.token_id is not None:
            uses.note(token.caller.token_id, self._now())
        return token.caller

    async def _token(self, scope: Scope, known: KnownTokens, address: str) -> KnownToken:
        """
        The token of a request, which is good.

        Raises:
            ProblemError: 401, or 429 where the address has shown too many that are not.
        """
        try:
            text = shown_token(scope["headers"])
            if text is None:
                return await self._token_of_session(scope, known)
            sha256 = sha256_of(text)
            wait_s = 0.0 if known.has_heard_of(sha256) else self._failures.wait_s(address)
            if wait_s > 0:
                raise _too_many(wait_s, "too many tokens that are none came from this address")
            return require_valid(await known.find(sha256), self._now())
        except ProblemError as problem:
            raise self._slowed(problem, address) from None

    async def _token_of_session(self, scope: Scope, known: KnownTokens) -> KnownToken:
        """The token that a browser showed when its user signed in. Raises ProblemError: 401."""
        secret = shown_session(scope)
        if secret is None:
            raise unauthorized("token_missing", f"send `Authorization: Bearer TOKEN`; {_ASK}")
        token = await known.of_session(sha256_of_secret(secret), self._now())
        if token is None:
            raise unauthorized("session_over", "this session is over; sign in again with a token")
        return require_valid(token, self._now())

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


def _too_many(wait_s: float, why: str) -> ProblemError:
    headers = {"Retry-After": str(max(1, ceil(wait_s)))}
    detail = f"{why}; send the same again after Retry-After seconds"
    return ProblemError(429, "too_many_requests", "Too many requests", detail, headers=headers)


def shown_token(headers: Headers) -> str | None:
    """
    The token of a request, well-formed; None where it shows nothing.

    Raises:
        ProblemError: 400 for more than one; 401 for another scheme, or for what is no token.
    """
    shown = [value for name, value in headers if name == b"authorization"]
    if not shown:
        return None
    if len(shown) > 1:
        detail = "send one Authorization header; who is meant by several is anybody's guess"
        raise ProblemError(400, "several_authorizations", "More than one Authorization header", detail)
    scheme, _, rest = shown[0].partition(b" ")
    if scheme.lower() != b"bearer":
        detail = f"send `Authorization: Bearer TOKEN`, no other scheme is known; {_ASK}"
        raise unauthorized("unknown_scheme", detail)
    text = rest.strip(b" ").decode("latin-1")
    if not is_token(text):
        detail = "this is no token: it is cut off, has something added, or a character is wrong; copy it once more"
        raise unauthorized("token_mistyped", detail, invalid=True)
    return text


def shown_session(scope: Scope) -> str | None:
    """
    The session that a request shows; None where it shows none, or asks for what a cookie is not enough for.

    A browser sends cookies along with whatever page makes it send a request. Only the forms of our own pages, which
    hold a proof of their own, may change anything by it.
    """
    if scope["method"] not in _READING_METHODS and not scope["path"].startswith("/ui/"):
        return None
    return cookie_of(scope, COOKIE)


def cookie_of(scope: Scope, name: str) -> str | None:
    """A cookie of a request; None where it has none."""
    for key, value in scope["headers"]:
        if key == b"cookie":
            try:
                found = SimpleCookie(value.decode("latin-1")).get(name)
            except CookieError:
                continue
            if found is not None and 0 < len(found.value) <= _LONGEST_COOKIE:
                return found.value
    return None


def refuse_token_in_address(query_string: bytes) -> None:
    """
    Refuse a token in an address, which proxies, browsers and logs keep.

    Raises:
        ProblemError: 400, there is one.
    """
    if _TOKEN_ANYWHERE.search(query_string) is not None:
        detail = "an address is logged on its way, so that this token is known to others now: revoke it, and send the "
        detail += "next one in the Authorization header"
        raise ProblemError(400, "token_in_address", "A token in the address", detail)


def require_trusted_without_token(scope: Scope, rules: AuthSettings) -> None:
    """
    Make sure that a request without any token may be answered.

    Raises:
        ProblemError: 401 where others can reach the server; 403 for what a page of somebody else sends.
    """
    if not (rules.is_loopback or rules.trust_network):
        raise unauthorized("no_token_made", f"there is no token yet, and this address is public; {_REMEDY}")
    host = _header(scope, b"host")
    if not rules.trust_network and not is_loopback(_name_of(host)):
        detail = (
            f"without a token this server answers to 127.0.0.1 and localhost alone, not to {host!r}; {_REMEDY}, or "
            "start it with --trust-network"
        )
        raise ProblemError(403, "foreign_host", "Not under this name", detail)
    origin = _header(scope, b"origin")
    if scope["method"] not in _SAFE_METHODS and origin and urlsplit(origin).netloc.lower() != host.lower():
        detail = f"a page of {origin!r} may not send anything here; {_REMEDY}"
        raise ProblemError(403, "foreign_origin", "Not from another site", detail)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _name_of(host: str) -> str:
    """Host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


async def require_scope(request: Request) -> None:
    """
    Let a request pass whose caller has the scope that its route needs.

    Raises:
        ProblemError: 403, which says what is missing.
    """
    needed = scope_of(request.method, request.scope["route"].path)
    if needed is not None and needed not in caller_of(request).scopes:
        raise scope_missing(needed, caller_of(request))


def caller_of(request: Request) -> Caller:
    """Who calls, as `Authentication` found out."""
    caller: Caller = request.state.caller
    return caller


async def _caller(request: Request) -> Caller:
    return caller_of(request)


CurrentCaller = Annotated[Caller, Depends(_caller)]
"""Who calls, as a route's argument."""
