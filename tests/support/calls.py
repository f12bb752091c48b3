"""Calls that bring reports, as the route hands them on, and what became of them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from fleetridge_server.auth.permissions import ANYBODY, Caller
from fleetridge_server.intake.take import Call, CallOutcome
from fleetridge_server.problems import ProblemError
from support.reports import make_report
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleetridge_server.db.database import Database


def a_call(body: Any, caller: Caller = ANYBODY, request_id: str | None = None) -> Call:
    """A call with JSON, or with bytes as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Call(content, "identity", caller, NOW, request_id)


def of_gpus(*numbers: int) -> Call:
    """A call with a new report of each of some gpus."""
    return a_call({"reports": [make_report(gpu__uuid=f"GPU-{number}") for number in numbers]})


def status_of(answer: CallOutcome) -> int:
    """Status of HTTP that a sender is told."""
    return answer.reply.problem.status if isinstance(answer.reply, ProblemError) else answer.reply.status


def told_by(answer: CallOutcome) -> dict[str, Any]:
    """What a sender is told, as JSON values."""
    if isinstance(answer.reply, ProblemError):
        return {**answer.reply.problem.model_dump(mode="json"), **answer.reply.members}
    told: dict[str, Any] = json.loads(answer.reply.content)
    return told


def outcomes_of(answer: CallOutcome) -> list[str]:
    """What became of each report of a list."""
    return [result["outcome"] for result in told_by(answer)["results"]]


@contextmanager
def writes_held_up(database: Database) -> Iterator[None]:
    """Whoever writes waits until the block ends, and holds a connection meanwhile."""
    with database.writing() as session:
        if database.data_file is None:
            session.execute(text("LOCK TABLE reports IN EXCLUSIVE MODE"))
        yield
