"""What a page was asked for: the parameters of its API route, as a form of a browser sends them."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from fleetridge_server.field_errors import FieldError, problem_of
from fleetridge_server.problems import ProblemError

_QueryT = TypeVar("_QueryT", bound=BaseModel)


def written(query: BaseModel) -> dict[str, str | int]:
    """Parameters that were sent, as they are written in an address."""
    sent = query.model_dump(mode="json", exclude_none=True)
    return {name: sent[name] for name in sent if name in query.model_fields_set}


def kept(query: BaseModel, *chosen: str) -> tuple[tuple[str, str], ...]:
    """What a form of filters sends along, so that nothing of an address is lost: all but what is chosen in it."""
    return tuple((name, str(value)) for name, value in written(query).items() if name not in (*chosen, "after"))


def query_of(request: Request, kind: type[_QueryT], **defaults: object) -> _QueryT:
    """
    Parameters of a request; a field of a form that was left empty counts as not sent.

    Args:
        request: the request.
        kind: its parameters, those of the API's route.
        defaults: of this page, where they differ from the API's.

    Raises:
        ProblemError: 422, a parameter is not as described.
    """
    sent = {name: value for name, value in request.query_params.items() if value != ""}
    try:
        return kind.model_validate({**defaults, **sent})
    except ValidationError as error:
        faults = [
            FieldError(field=".".join(map(str, ("query", *fault["loc"]))), problem=problem_of(fault))
            for fault in error.errors()
        ]
        detail = "; ".join(f"{fault.field}: {fault.problem}" for fault in faults)
        title = "The request is not as documented"
        raise ProblemError(422, "invalid_request", title, detail, errors=faults) from error
