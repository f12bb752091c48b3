"""Signing in: a person shows a token once, and the browser gets a session for some hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from fleetridge_server.access.credentials import refused
from fleetridge_server.access.guard import holding
from fleetridge_server.access.known_tokens import KnownTokens
from fleetridge_server.access.rates import Buckets, caller_at
from fleetridge_server.access.session_cookie import COOKIE, cookie_of, new_secret, sha256_of_secret
from fleetridge_server.access.token_text import is_token, sha256_of
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.pages.forms import form_of, is_secure, local, visitor_of
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.rendering import Frame, html
from fleetridge_server.problems import ProblemError
from fleetridge_server.store.database import Database
from fleetridge_server.store.sessions import LASTS, end_session, open_session

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class SignInPage:
    """
    What the form shows.

    Attributes:
        back: address to go to afterwards.
        fault: what was wrong with the last try; empty at first.
        hours: for which a session holds.
    """

    back: str
    fault: str = ""
    hours: int = int(LASTS.total_seconds() // 3600)


@router.get("/ui/sign-in")
def get_sign_in(request: Request) -> Response:
    """The form that takes a token and opens a session."""
    return sign_in_page(request, SignInPage(local(request.query_params.get("back"))))


@router.post("/ui/sign-in")
async def post_sign_in(request: Request, database: OpenDatabase) -> Response:
    """Open a session for who shows a token that may read."""
    fields = await form_of(request)
    back = local(fields.get("back"))
    try:
        token_id = await _shown(request, fields.get("token", ""))
    except ProblemError as problem:
        return sign_in_page(request, SignInPage(back, problem.problem.detail), status=problem.problem.status)
    secret, before = new_secret(), cookie_of(request.scope, COOKIE)
    await anyio.to_thread.run_sync(_opened, database, secret, token_id, before, limiter=request.app.state.writers)
    response = RedirectResponse(back, 303)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(LASTS.total_seconds()),
        httponly=True,
        samesite="lax",  # so that a link in a message opens the page that it is about
        secure=is_secure(request),
        path="/",
    )
    return response


@router.post("/ui/sign-out")
async def post_sign_out(request: Request, database: OpenDatabase) -> Response:
    """End the session."""
    await form_of(request)
    secret = cookie_of(request.scope, COOKIE)
    if secret is not None:
        await anyio.to_thread.run_sync(_ended, database, secret, limiter=request.app.state.writers)
    response = RedirectResponse("/ui/sign-in", 303)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=is_secure(request))
    return response


def sign_in_page(request: Request, shown: SignInPage, *, status: int = 200) -> Response:
    """The form as an answer."""
    frame = Frame("Sign in", Links(), datetime.now(timezone.utc), "", visitor_of(request))
    return html("sign_in.html", frame, shown, status=status)


async def _shown(request: Request, text: str) -> int:
    """
    Row of the token that was shown.

    Raises:
        ProblemError: 401, it is none or does not hold; 403, it may not read; 429, too many tries.
    """
    state = request.app.state
    known: KnownTokens = state.known_tokens
    tries: Buckets = state.sign_ins
    address = caller_at(request.client.host if request.client else None)
    if tries.wait_s(address) > 0:
        raise ProblemError(429, "too_many_requests", "Too many requests", "too many tries; wait a few seconds")
    if not is_token(text):
        tries.take(address)
        detail = "this is no token: it is cut off, has something added, or a character is wrong; copy it once more"
        raise refused("token_mistyped", detail, invalid=True)
    try:
        token = holding(await known.find(sha256_of(text)), datetime.now(timezone.utc))
    except ProblemError:
        tries.take(address)
        raise
    if "read" not in token.caller.scopes or token.caller.token_id is None:
        detail = "this token may not read; take one with the scope read, or operate to decide about alerts"
        raise ProblemError(403, "scope_missing", "Not allowed", detail)
    return token.caller.token_id


def _opened(database: Database, secret: str, token_id: int, before: str | None) -> None:
    """Open a session in place of the one that the browser had, if any."""
    with database.writing() as session:
        if before is not None:
            end_session(session, sha256_of_secret(before))
        open_session(session, sha256_of_secret(secret), token_id, datetime.now(timezone.utc))


def _ended(database: Database, secret: str) -> None:
    with database.writing() as session:
        end_session(session, sha256_of_secret(secret))
