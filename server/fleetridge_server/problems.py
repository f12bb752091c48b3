"""
Problems: errors as callers see them, one shape for all (RFC 9457 problem details).

    {"status": 422, "code": "invalid_report", "title": "…", "detail": "what, and the remedy",
     "errors": [{"field": "points[3].ms", "problem": "…"}], "request_id": "…"}

`code` is for programs and stays; the other words are for people. An error shows nothing of the inside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel

# Enough to see what is wrong with a request; one of a broken program may have thousands of faults.
MAX_ERRORS = 20

# A field's name and a rejected value are the sender's, so that they can have any length.
_MAX_FIELD_CHARACTERS = 200
_MAX_PROBLEM_CHARACTERS = 400


def shortened(text: str, characters: int) -> str:
    """Text with its end cut off where it is longer than allowed; the cut shows."""
    return text if len(text) <= characters else f"{text[:characters]}…"


class FieldError(BaseModel):
    """One fault of a request, and the field it is in (empty where the request as a whole is meant)."""

    field: Annotated[str, AfterValidator(partial(shortened, characters=_MAX_FIELD_CHARACTERS))]
    problem: Annotated[str, AfterValidator(partial(shortened, characters=_MAX_PROBLEM_CHARACTERS))]


def problem_of(fault: Any) -> str:  # noqa: ANN401 # pydantic's ErrorDetails, a mapping
    """One of pydantic's faults in words."""
    if fault["type"] == "model_type":
        return "not an object with fields"
    if fault["type"] == "tuple_type":
        return "not a list"
    return str(fault["msg"]).removeprefix("Value error, ")


def field_errors(faults: Iterable[Any], *within: str) -> list[FieldError]:
    """Pydantic's faults, each with the field that it is in, below what it is `within`."""
    return [
        FieldError(field=".".join(map(str, (*within, *fault["loc"]))), problem=problem_of(fault)) for fault in faults
    ]


MEDIA_TYPE = "application/problem+json"

# Long enough for a writer's queue to drain, short enough that a node's report is not late.
RETRY_AFTER_S = 5

_MAX_DETAIL_CHARACTERS = 2000


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
        errors: the faults one by one; the first MAX_ERRORS are shown.
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
        problem = self.problem
        anew = partial(ProblemError, errors=problem.errors, headers=self.headers, members=self.members)
        return anew, (problem.status, problem.code, problem.title, problem.detail)


def faulty(code: str, title: str, faults: Sequence[FieldError]) -> ProblemError:
    """Answer 422: fields that are wrong, each with what is wrong with it."""
    detail = "; ".join(f"{fault.field}: {fault.problem}" for fault in faults)
    return ProblemError(422, code, title, detail, errors=faults)


def invalid_request(faults: Sequence[FieldError]) -> ProblemError:
    """Answer 422: parameters or a body that are not as the description of the API has them."""
    return faulty("invalid_request", "The request is not as documented", faults)


def unavailable(code: str, title: str, detail: str) -> ProblemError:
    """Answer 503: the same call will do a little later."""
    return ProblemError(503, code, title, detail, headers={"Retry-After": str(RETRY_AFTER_S)})


def of_database(error: Exception) -> ProblemError | None:
    """Problem 503 for what stands between us and the database; None for an error of our own."""
    # The command line's own faults are problems, too, and its help need not wait for what speaks with databases.
    from fleetridge_server.db.troubles import trouble  # noqa: PLC0415 # see above

    detail = trouble(error)
    if detail is None:
        return None
    _log.warning("database unavailable: %s", type(getattr(error, "orig", None) or error).__name__)
    return unavailable("database_unavailable", "The database does not answer just now", detail)


def unexpected() -> ProblemError:
    """Problem 500: an error of our own, of whose inside nothing is shown."""
    detail = "the server met an error of its own; its log has the particulars under the request's id"
    return ProblemError(500, "internal_error", "Internal error", detail)
