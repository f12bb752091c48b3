"""What every answer has, its form by what a request accepts, what is noted of every request, errors as answers."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeVar, final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetridge_server.db.troubles import DATABASE_TROUBLES
from fleetridge_server.problems import (
    MAX_ERRORS,
    MEDIA_TYPE,
    Problem,
    ProblemError,
    field_errors,
    invalid_request,
    of_database,
    unexpected,
)
from fleetridge_server.telemetry.logs import HEADER, current_request_id, enter_request
from fleetridge_server.telemetry.metrics import OwnMetrics, RequestStats, begin_request_stats
from fleetridge_server.verdicts.roof_shapes import Answer

_CODES = {404: "not_found", 405: "method_not_allowed", 408: "body_timeout", 413: "body_too_large"}
_TITLES = {404: "There is nothing at this address", 405: "This address does not take that method"}


# Only where an answer does not say otherwise: a page has scripts of its own, a picture may be kept.
_DEFAULTS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


def common_headers() -> Iterator[tuple[bytes, bytes]]:
    """Headers of an answer to the request in hand."""
    yield from _DEFAULTS
    request_id = current_request_id()
    if request_id is not None:
        yield HEADER, request_id.encode("ascii")


@final
class AnswerHeaders:
    """Middleware that adds the common headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        enter_request(scope["headers"])

        async def send_with_headers(message: Message) -> None:
            """Pass a message on; its start with the common headers that it does not set itself."""
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                names = {name.lower() for name, _ in own}
                added = [(name, value) for name, value in common_headers() if name not in names]
                message = {**message, "headers": [*own, *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


@final
class HeadAsGet:
    """Middleware that lets the routes of GET answer HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)


INGEST = ("POST", "/reports")

# Asked every few seconds by programs; a line each would hide all others.
_QUIET_ROUTES = frozenset({"/livez", "/readyz", "/metrics"})

# Whatever else somebody invents is no label of ours.
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_INTERNAL_ERROR = 500
_FIRST_ERROR = 400

_log = logging.getLogger(__name__)


@final
class RequestWatch:
    """
    Middleware that logs and counts requests.

    Args:
        app: what answers.
        metrics: counts them.
    """

    def __init__(self, app: ASGIApp, metrics: OwnMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        stats, began_s = begin_request_stats(), time.perf_counter()
        status = _INTERNAL_ERROR  # what is answered where the application breaks

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._metrics.in_flight():
            try:
                await self._app(scope, receive, send_watched)
            finally:
                self._log_and_count(scope, status, time.perf_counter() - began_s, stats)

    def _log_and_count(self, scope: Scope, status: int, duration_s: float, stats: RequestStats) -> None:
        route = getattr(scope.get("route"), "path", "")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.note_request(method=method, route=route, status=status, duration_s=duration_s, stats=stats)
        if (scope["method"], scope["path"]) == INGEST:
            self._metrics.note_reports(status, stats)
        level = logging.DEBUG if route in _QUIET_ROUTES and status < _FIRST_ERROR else logging.INFO
        _log.log(
            level,
            "%s %s %d in %.0f ms%s",
            method,
            route or "(no route)",
            status,
            1000 * duration_s,
            "".join(f", {count} {outcome}" for outcome, count in sorted(stats.outcomes.items())),
            extra={"fields": _fields(scope, method, route, status, duration_s, stats)},
        )


def _fields(
    scope: Scope, method: str, route: str, status: int, duration_s: float, stats: RequestStats
) -> dict[str, Any]:
    caller = scope.get("state", {}).get("caller")
    fields: dict[str, Any] = {
        "method": method,
        "route": route or None,
        "status": status,
        "duration_ms": round(1000 * duration_s, 1),
        "database_ms": round(1000 * stats.database_s, 1),
        "token_id": None if caller is None else caller.token_id,
    }
    return {**fields, "reports": dict(stats.outcomes)} if stats.outcomes else fields


def install_handlers(app: FastAPI) -> None:
    """Give every error of an app its one shape."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    for trouble_of_database in DATABASE_TROUBLES:
        app.add_exception_handler(trouble_of_database, _on_database_error)
    app.add_exception_handler(Exception, _on_unexpected)


def answer_to(error: ProblemError) -> JSONResponse:
    """Answer that states a problem."""
    problem = error.problem.model_copy(update={"request_id": current_request_id()})
    content = {**problem.model_dump(mode="json"), **error.members}
    return JSONResponse(content, error.problem.status, headers=error.headers, media_type=MEDIA_TYPE)


async def _on_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)  # noqa: S101 # what it is registered for
    return answer_to(error)


async def _on_invalid_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 # what it is registered for
    return answer_to(invalid_request(field_errors(error.errors()[:MAX_ERRORS])))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 # what it is registered for
    if isinstance(error.__cause__, UnicodeDecodeError):
        detail = "the body is not JSON in UTF-8"
        return answer_to(ProblemError(422, "not_json", "The body is not JSON", detail))
    status = error.status_code
    headers = {"Allow": _methods_at(request)} if status == HTTPStatus.METHOD_NOT_ALLOWED else error.headers
    title = _TITLES.get(status, HTTPStatus(status).phrase)
    detail = f"{title}; /openapi.json lists what there is" if status in _TITLES else str(error.detail)
    return answer_to(ProblemError(status, _CODES.get(status, "http_error"), title, detail, headers=headers))


def _methods_at(request: Request) -> str:
    """Methods that an address takes; it can have several routes, of which the framework names the first one's."""
    routes, scope = request.app.router.routes, request.scope
    taken = [
        method
        for method in ("GET", "POST", "DELETE")
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join([*taken, "HEAD"] if "GET" in taken else taken)


async def _on_database_error(_request: Request, error: Exception) -> JSONResponse:
    problem = of_database(error)
    if problem is None:
        raise error
    return answer_to(problem)


async def _on_unexpected(_request: Request, _error: Exception) -> JSONResponse:
    # This answer goes out by a way of the framework's own, past whatever adds headers to the others.
    headers = {name.decode(): value.decode() for name, value in common_headers()}
    problem = unexpected()
    problem.headers.update(headers)
    return answer_to(problem)


JSON = "application/json"
TEXT = "text/plain"

# An answer differs by Accept, so that a cache may not give one form to who asked for the other.
_VARY = {"Vary": "Accept"}

_ALWAYS = {
    422: "A parameter is not as described.",
    503: "The database does not answer just now; ask again after Retry-After seconds.",
}

_AnswerT = TypeVar("_AnswerT", bound=Answer)


def answered(request: Request, answer: _AnswerT, as_text: Callable[[_AnswerT], str]) -> Response:
    """Answer in the form that the request accepts."""
    if wants_text(", ".join(request.headers.getlist("accept"))):
        return Response(f"{as_text(answer)}\n", media_type=f"{TEXT}; charset=utf-8", headers=_VARY)
    return Response(answer.model_dump_json(), media_type=JSON, headers=_VARY)


def wants_text(accept: str) -> bool:
    """
    Whether an Accept header asks for text rather than JSON.

    The higher `q` wins, then the more specific range; between equals, as in curl's `*/*`, JSON does.
    """
    ranges = [_parsed(part) for part in accept.split(",") if part.strip()]
    return _preference(TEXT, ranges) > _preference(JSON, ranges)


def documented(problems: Mapping[int, str] = _ALWAYS) -> dict[int | str, dict[str, Any]]:
    """Descriptions of a route's answers: the text form beside JSON, and errors by status."""
    return {200: {"content": {TEXT: {"schema": {"type": "string"}}}}} | problems_of(problems)


def problems_of(problems: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Descriptions of a route's errors by status, with those that every route has."""
    return {status: {"model": Problem, "description": words} for status, words in {**_ALWAYS, **problems}.items()}


def _preference(media_type: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """Quality of a type and how specifically it was named: not at all (0), `*/*` (1), `text/*` (2), in full (3)."""
    kind = media_type.partition("/")[0]
    for specificity, name in ((3, media_type), (2, f"{kind}/*"), (1, "*/*")):
        qualities = [quality for named, quality in ranges if named == name]
        if qualities:
            best = max(qualities)
            return best, specificity if best > 0 else 0
    return 0.0, 0


def _parsed(part: str) -> tuple[str, float]:
    """Media range in lower case with its quality, 1 where none is given or it is no number of 0 to 1."""
    name, *parameters = (word.strip().lower() for word in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, _quality(value.strip())
    return name, 1.0


def _quality(value: str) -> float:
    try:
        quality = float(value)
    except ValueError:
        return 1.0
    return quality if 0 <= quality <= 1 else 1.0
