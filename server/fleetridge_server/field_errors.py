"""Faults of what somebody sent, each with its field: in a request, or in a line of a file."""

from __future__ import annotations

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
