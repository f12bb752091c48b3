"""What a browser shows once its user has signed in: a cookie of random bits, which is no token and holds for hours."""

from __future__ import annotations

import hashlib
import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.types import Scope

COOKIE = "fleetridge_session"

_SECRET_BYTES = 32
_LONGEST = 200

_SAFE_METHODS = frozenset({"GET", "HEAD"})


def new_secret() -> str:
    """Content of a cookie that nobody had before."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def sha256_of_secret(secret: str) -> bytes:
    """What is stored of a session."""
    return hashlib.sha256(secret.encode()).digest()


def shown_session(scope: Scope) -> str | None:
    """
    The session that a request shows; None where it shows none, or asks for what a cookie is not enough for.

    A browser sends cookies along with whatever page makes it send a request. Only the forms of our own pages, which
    carry a proof of their own, may change anything by it.
    """
    if scope["method"] not in _SAFE_METHODS and not scope["path"].startswith("/ui/"):
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
            if found is not None and 0 < len(found.value) <= _LONGEST:
                return found.value
    return None
