"""
Pages by key: the token of the next page says after which entry it begins, and as of when the list was made.

So a list that goes on over several calls stays one list, whatever is measured meanwhile.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleetridge.report.values import UtcTime
from fleetridge_server.problems import FieldError, ProblemError

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1000

# A time, a number and an identity of at most 256 characters (six bytes each as escaped JSON), in base64.
_MAX_TOKEN = 4096

_Entry = TypeVar("_Entry")


class MomentQuery(BaseModel):
    """Parameters of every answer; an unknown one is refused, for a filter that is ignored gives a wrong answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: Annotated[
        UtcTime | None, Field(description="Answer as of this time (ISO 8601, UTC where no zone is given), else now.")
    ] = None


class PageQuery(MomentQuery):
    """Parameters of an answer that is a list."""

    limit: Annotated[int, Field(ge=1, le=_MAX_LIMIT, description="Entries in one page.")] = _DEFAULT_LIMIT
    after: Annotated[str | None, Field(max_length=_MAX_TOKEN, description="`next` of the page before.")] = None


class Position(BaseModel):
    """
    Place in a list: the last entry that was given.

    Attributes:
        as_of: of the whole list.
        name: of the entry, which no other has.
        deviation: by which the list is sorted before the name, if it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    as_of: UtcTime
    name: str
    deviation: float | None = None


def opened(after: str | None) -> Position | None:
    """
    Position that a token stands for.

    Raises:
        ProblemError: 422, this is no token of ours.
    """
    if after is None:
        return None
    try:
        return Position.model_validate_json(base64.b64decode(after, altchars=b"-_", validate=True))
    except (ValueError, ValidationError) as error:
        problem = "not a token of this list; send `next` of the page before, as it is"
        fault = FieldError(field="query.after", problem=problem)
        title = "The request is not as documented"
        raise ProblemError(422, "invalid_request", title, f"{fault.field}: {problem}", errors=[fault]) from error


def moment(as_of: datetime | None, position: Position | None = None) -> datetime:
    """Time as of which to answer: as asked, else that of the page before, else now."""
    if as_of is not None:
        return as_of
    return datetime.now(timezone.utc) if position is None else position.as_of


def page(
    entries: Sequence[_Entry], limit: int, position_of: Callable[[_Entry], Position]
) -> tuple[tuple[_Entry, ...], str | None]:
    """First `limit` of what is left of a list, and the token of the next page if there is one."""
    shown = tuple(entries[:limit])
    if len(entries) <= limit:
        return shown, None
    token = position_of(shown[-1]).model_dump_json(exclude_none=True)
    return shown, base64.urlsafe_b64encode(token.encode()).decode()
