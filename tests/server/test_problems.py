from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Annotated

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI, Query
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fleetridge_server.http.answers import install_handlers
from fleetridge_server.problems import MAX_ERRORS, FieldError, ProblemError, unavailable, unexpected

if TYPE_CHECKING:
    from support.app_client import AppClient

SECRET = "password=hunter2"  # noqa: S105 # what must not be told


def answer(url: str, error: Exception | None = None) -> httpx.Response:
    """Answer of a small application that has our handlers and one route that fails."""
    app = FastAPI()
    install_handlers(app)

    @app.get("/fail")
    def fail() -> None:
        assert error is not None
        raise error

    @app.get("/limited")
    def limited(limit: Annotated[int, Query(ge=1)] = 100) -> int:
        return limit

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return await client.get(url)

    with start_blocking_portal() as portal:
        return portal.call(call)


def test_a_problem_is_told_in_its_one_shape() -> None:
    """Status, code, title, detail, faults, and what the route adds."""
    error = ProblemError(
        409, "taken", "It is taken", "choose another", errors=[FieldError(field="a", problem="b")], members={"id": 5}
    )

    told = answer("/fail", error)

    assert told.status_code == 409
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json() == {
        "status": 409,
        "code": "taken",
        "title": "It is taken",
        "detail": "choose another",
        "errors": [{"field": "a", "problem": "b"}],
        "request_id": None,
        "id": 5,
    }


def test_a_bad_argument_is_named() -> None:
    """By where it stands and what it is called."""
    told = answer("/limited?limit=0")

    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in told.json()["errors"]] == ["query.limit"]


def test_an_unknown_address_has_the_shape_too() -> None:
    """No answer of the framework's own gets out."""
    told = answer("/nowhere")

    assert told.status_code == 404
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json()["status"] == 404


@pytest.mark.parametrize(
    "error",
    [
        OperationalError(SECRET, {}, Exception("database is locked")),
        PoolTimeoutError("QueuePool limit reached"),
        ProgrammingError(SECRET, {}, Exception("gone"), connection_invalidated=True),
    ],
)
def test_a_database_that_is_busy_or_lost_is_a_matter_of_waiting(error: Exception) -> None:
    """503 with the time to wait; nothing of the query is told."""
    told = answer("/fail", error)

    assert told.status_code == 503
    assert int(told.headers["retry-after"]) > 0
    assert SECRET not in told.text


@pytest.mark.parametrize(
    "error", [RuntimeError(SECRET), IntegrityError(SECRET, {}, Exception()), ProgrammingError(SECRET, {}, Exception())]
)
def test_an_error_of_our_own_tells_nothing_of_the_inside(error: Exception) -> None:
    """500 in the same shape; the log has the rest."""
    told = answer("/fail", error)

    assert told.status_code == 500
    assert told.json()["code"] == "internal_error"
    assert SECRET not in told.text


def test_a_request_with_endless_faults_gets_a_short_answer(empty_server: AppClient) -> None:
    """Unknown parameters by the hundred, each with a long name."""
    answer = empty_server.get("/devices", params={f"{key}{'x' * 300}": "1" for key in range(100)})

    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 20
    assert len(answer.content) < 10_000


def whole(error: ProblemError) -> tuple[object, ...]:
    return error.problem, error.headers, error.members


@pytest.mark.parametrize(
    "error",
    [
        ProblemError(
            409,
            "taken",
            "It is taken",
            "choose another",
            errors=[FieldError(field="a", problem="b"), FieldError(field="", problem="d")],
            headers={"Allow": "GET"},
            members={"id": 5, "outcome": "conflict"},
        ),
        ProblemError(422, "invalid", "Wrong", "x" * 5000, errors=[FieldError(field="a" * 300, problem="b" * 500)] * 30),
        unavailable("busy", "Too much at once", "come again"),
        unexpected(),
    ],
)
def test_a_problem_travels_whole_between_processes(error: ProblemError) -> None:
    """With its faults, its headers and what its route adds; however often."""
    once = pickle.loads(pickle.dumps(error))  # noqa: S301 # our own
    twice = copy.copy(once)

    assert isinstance(once, ProblemError)
    assert whole(once) == whole(twice) == whole(error)
    assert len(once.problem.errors) <= MAX_ERRORS
