"""
Pages by key: the token of the next page says after which entry it begins, and as of when the list was made.

So a list that goes on over several calls stays one list, whatever is measured meanwhile.
"""

from __future__ import annotations

import base64
import hashlib
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

# Against a mix-up, not against forgery: a token gives nothing that the list itself does not.
_LIST_ID_DIGITS = 12

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
        of_list: which list it is a place in, see `list_id`.
        as_of: of the whole list.
        name: of the entry, which no other has.
        deviation: by which the list is sorted before the name, if it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    of_list: str
    as_of: UtcTime
    name: str
    deviation: float | None = None


def list_id(path: str, query: PageQuery) -> str:
    """Short name of a list: what it lists and by which filters, whatever the page."""
    filters = query.model_dump_json(exclude={"as_of", "limit", "after"}, exclude_none=True)
    return hashlib.sha256(f"{path}?{filters}".encode()).hexdigest()[:_LIST_ID_DIGITS]


def position_after(after: str | None, of_list: str) -> Position | None:
    """
    Position in a list that a token stands for.

    Raises:
        ProblemError: 422, this is no token of ours, or one of another list.
    """
    if after is None:
        return None
    try:
        position = Position.model_validate_json(base64.b64decode(after, altchars=b"-_", validate=True))
    except (ValueError, ValidationError) as error:
        raise _not_of_this_list() from error
    if position.of_list != of_list:
        raise _not_of_this_list()
    return position


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


def _not_of_this_list() -> ProblemError:
    problem = "not a token of this list; send `next` of the page before, as it is, with the same filters"
    fault = FieldError(field="query.after", problem=problem)
    title = "The request is not as documented"
    return ProblemError(422, "invalid_request", title, f"{fault.field}: {problem}", errors=[fault])
