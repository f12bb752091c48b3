"""Errors as people see them: where a page was asked for, its problem is a page, too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, final

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetridge_server.access.permission import is_open
from fleetridge_server.access.request_id import current_request_id
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.pages.forms import visitor_of
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.rendering import HTML, Frame, html
from fleetridge_server.pages.sign_in import SignInPage, sign_in_page
from fleetridge_server.problems import MEDIA_TYPE, unexpected

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
    """
    Middleware that turns problems of pages into pages, and a missing session into the form that opens one.

    Args:
        app: what answers.
    """

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
                await _problem_page(scope, _page_of_error())(scope, receive, send)
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


def _page_of_error() -> ProblemPage:
    """The page of an error of our own."""
    problem = unexpected().problem
    return ProblemPage(problem.status, problem.title, problem.detail, (), current_request_id() or "")


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
