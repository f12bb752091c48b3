"""
Errors as callers see them: one shape for all, RFC 9457 problem details.

    {"status": 422, "code": "invalid_report", "title": "…", "detail": "what, and the remedy",
     "errors": [{"field": "points[3].ms", "problem": "…"}], "request_id": "…"}

`code` is for programs and stays; the other words are for people. An error tells nothing of the inside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from fleetridge_server.access.answer_headers import common_headers
from fleetridge_server.access.request_id import current_request_id
from fleetridge_server.field_errors import MAX_ERRORS, FieldError, problem_of, shortened
from fleetridge_server.store.trouble import DATABASE_TROUBLES, trouble

MEDIA_TYPE = "application/problem+json"

# Long enough for a writer's queue to drain, short enough that a node's report is not late.
RETRY_AFTER_S = 5

_MAX_DETAIL_CHARACTERS = 2000

_CODES = {404: "not_found", 405: "method_not_allowed", 408: "body_timeout", 413: "body_too_large"}
_TITLES = {404: "There is nothing at this address", 405: "This address does not take that method"}

_log = logging.getLogger(__name__)


class Problem(BaseModel):
    """Any error answer; some carry further members that their route describes."""

    status: int
    code: str
    title: str
    detail: Annotated[str, AfterValidator(partial(shortened, characters=_MAX_DETAIL_CHARACTERS))]
    errors: list[FieldError] = []
    request_id: str | None = None


class ProblemError(Exception):
    """
    An error that the caller shall see.

    Args:
        status: of the HTTP answer.
        code: machine word.
        title: the kind of error, the same for every one with this code.
        detail: what is wrong here, and the remedy.
        errors: the faults one by one; the first MAX_ERRORS are told.
        headers: further headers.
        members: further members of the answer.
    """

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(status=status, code=code, title=title, detail=detail, errors=list(errors[:MAX_ERRORS]))
        self.headers = dict(headers or {})
        self.members = dict(members or {})

    def __reduce__(self) -> tuple[Callable[..., ProblemError], tuple[Any, ...]]:
        """Travel whole between processes; exceptions do so by their message alone."""
        told = self.problem
        anew = partial(ProblemError, errors=told.errors, headers=self.headers, members=self.members)
        return anew, (told.status, told.code, told.title, told.detail)


def unavailable(code: str, title: str, detail: str) -> ProblemError:
    """Answer 503: the same call will do a little later."""
    return ProblemError(503, code, title, detail, headers={"Retry-After": str(RETRY_AFTER_S)})


def install_handlers(app: FastAPI) -> None:
    """Give every error of an app its one shape."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    for trouble_of_database in DATABASE_TROUBLES:
        app.add_exception_handler(trouble_of_database, _on_database_error)
    app.add_exception_handler(Exception, _on_unexpected)


def answer_to(error: ProblemError) -> JSONResponse:
    """Answer that tells a problem."""
    problem = error.problem.model_copy(update={"request_id": current_request_id()})
    content = {**problem.model_dump(mode="json"), **error.members}
    return JSONResponse(content, error.problem.status, headers=error.headers, media_type=MEDIA_TYPE)


def of_database(error: Exception) -> ProblemError | None:
    """Problem 503 for what stands between us and the database; None for an error of our own."""
    detail = trouble(error)
    if detail is None:
        return None
    _log.warning("database unavailable: %s", type(getattr(error, "orig", None) or error).__name__)
    return unavailable("database_unavailable", "The database does not answer just now", detail)


async def _on_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)  # noqa: S101 # what it is registered for
    return answer_to(error)


async def _on_invalid_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 # what it is registered for
    told = error.errors()[:MAX_ERRORS]
    faults = [FieldError(field=".".join(map(str, fault["loc"])), problem=problem_of(fault)) for fault in told]
    detail = "; ".join(f"{fault.field}: {fault.problem}" for fault in faults)
    return answer_to(ProblemError(422, "invalid_request", "The request is not as documented", detail, errors=faults))


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


def unexpected() -> ProblemError:
    """Problem 500: an error of our own, of whose inside nobody is told."""
    detail = "the server met an error of its own; its log has the particulars under the request's id"
    return ProblemError(500, "internal_error", "Internal error", detail)


async def _on_unexpected(_request: Request, _error: Exception) -> JSONResponse:
    # This answer goes out by a way of the framework's own, past whatever adds headers to the others.
    headers = {name.decode(): value.decode() for name, value in common_headers()}
    problem = unexpected()
    problem.headers.update(headers)
    return answer_to(problem)
