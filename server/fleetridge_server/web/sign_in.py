"""The page to sign in on, and the pages that say what went wrong."""

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, final

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetridge_server.auth.permissions import is_open, unauthorized
from fleetridge_server.auth.token_cache import KnownTokens, require_valid
from fleetridge_server.auth.tokens import (
    LASTS,
    end_session,
    is_token,
    new_secret,
    open_session,
    sha256_of,
    sha256_of_secret,
)
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.http.authentication import COOKIE, cookie_of
from fleetridge_server.http.parameters import OpenDatabase
from fleetridge_server.http.rate_limits import Buckets, caller_at
from fleetridge_server.problems import MEDIA_TYPE, ProblemError, unexpected
from fleetridge_server.telemetry.logs import current_request_id
from fleetridge_server.web.forms import form_of, is_secure, local, visitor_of
from fleetridge_server.web.rendering import HTML, Frame, Links, html

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class SignInPage:
    """What the form shows: where to go afterwards, the fault of the last try, and for how long a session holds."""

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
        ProblemError: 401, it is none or not good; 403, it may not read; 429, too many tries.
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
        raise unauthorized("token_mistyped", detail, invalid=True)
    try:
        token = require_valid(await known.find(sha256_of(text)), datetime.now(timezone.utc))
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


_FILES = (".svg", ".zip")
_UNAUTHORIZED = 401

# Nothing more can be done with these by a token: there is none, or it came by another way.
_SIGN_IN_HELPS = frozenset({"token_missing", "session_over", "token_revoked", "token_expired"})

# Kept where a page takes the place of an answer for programs.
_KEPT = frozenset({b"retry-after", b"allow"})


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """What the page shows; `detail` says what is wrong and what to do."""

    status: int
    title: str
    detail: str
    errors: tuple[tuple[str, str], ...]
    request_id: str


@final
class ProblemPages:
    """Middleware that turns problems of pages into pages, and a missing session into the form that opens one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not _is_page(scope):
            await self._app(scope, receive, send)
            return
        answer = _Held()
        has_started = False

        async def hold_problem(message: Message) -> None:
            """Pass a message on; those of a problem are held back, and a page sent once they are whole."""
            nonlocal has_started
            if not answer.takes(message):
                has_started = True
                await send(message)
            elif answer.is_whole:
                has_started = True
                await answer.page(scope)(scope, receive, send)

        try:
            await self._app(scope, receive, hold_problem)
        except Exception:
            if not has_started:
                problem = {**unexpected().problem.model_dump(), "request_id": current_request_id()}
                await _problem_page(scope, _page_of(problem))(scope, receive, send)
            raise  # to the log


class _Held:
    """An answer that is a problem, held back until it is whole."""

    def __init__(self) -> None:
        self._start: Message | None = None
        self._body = b""
        self.is_whole = False

    def takes(self, message: Message) -> bool:
        """Whether a message belongs to a problem, and is held."""
        if message["type"] == "http.response.start":
            if not _is_problem(message):
                return False
            self._start = message
        elif self._start is None:
            return False
        else:
            self._body += message.get("body", b"")
            self.is_whole = not message.get("more_body", False)
        return True

    def page(self, scope: Scope) -> ASGIApp:
        """The page that takes its place."""
        assert self._start is not None  # noqa: S101 # a whole answer has started
        request, problem = Request(scope), json.loads(self._body)
        if self._start["status"] == _UNAUTHORIZED and problem["code"] in _SIGN_IN_HELPS and scope["method"] == "GET":
            back = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
            fault = "" if problem["code"] == "token_missing" else str(problem["detail"])
            return sign_in_page(request, SignInPage(back, fault), status=_UNAUTHORIZED)
        response = _problem_page(scope, _page_of(problem))
        for name, value in self._start["headers"]:
            if name.lower() in _KEPT:
                response.headers[name.decode("latin-1")] = value.decode("latin-1")
        return response


def _problem_page(scope: Scope, page: ProblemPage) -> Response:
    request = Request(scope)
    links = Links(simulated=request.query_params.get("cluster") == SIMULATED)
    frame = Frame(page.title, links, datetime.now(timezone.utc), "", visitor_of(request))
    return html("problem.html", frame, page, status=page.status)


def _page_of(problem: dict[str, Any]) -> ProblemPage:
    return ProblemPage(
        status=problem["status"],
        title=problem["title"],
        detail=problem["detail"],
        errors=tuple((fault["field"], fault["problem"]) for fault in problem["errors"]),
        request_id=problem["request_id"] or "",
    )


def _is_page(scope: Scope) -> bool:
    """Whether a person asked: for a page, or for a file by following a link."""
    path = scope["path"]
    if path.endswith(_FILES):
        accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
        return path.startswith("/ui/") and HTML.encode() in accepted
    return path in ("/", "/ui", "/docs") or (path.startswith("/ui/") and (not is_open(path) or path == "/ui/sign-in"))


def _is_problem(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(MEDIA_TYPE.encode())
        for name, value in message.get("headers", ())
    )
