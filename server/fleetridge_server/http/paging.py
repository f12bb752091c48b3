"""
Pages by key: the token of the next page says after which entry it begins, and as of when the list was made.

So a list that goes on over several calls stays one list, whatever is measured meanwhile.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fleetridge.report.values import UtcTime
from fleetridge_server.problems import FieldError, ProblemError, invalid_request

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1000

# A time, a number and an identity of at most 256 characters (six bytes each as escaped JSON), in base64.
_MAX_TOKEN = 4096

# Against a mix-up, not against forgery: a token gives nothing that the list itself does not.
_LIST_ID_DIGITS = 12

# Numbers of entries are rows of a database, of at most 64 bits.
_MOST_DIGITS = 18

# Of a handful of severities; they are packed in a byte.
_MOST_SEVERITY = 255

# No report is older; answers look back from their time, which has to leave room for that.
EARLIEST = datetime(1970, 1, 1, tzinfo=timezone.utc)

_Entry = TypeVar("_Entry")


def _not_before_all_reports(time: datetime) -> datetime:
    # By a function, as JSON Schema has no word for a bound of a time.
    if time < EARLIEST:
        raise ValueError(f"give a time from {EARLIEST:%Y} on; no report is older")
    return time


class MomentQuery(BaseModel):
    """Parameters of every answer; an unknown one is refused, for a filter that is ignored gives a wrong answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: Annotated[
        Annotated[UtcTime, AfterValidator(_not_before_all_reports)] | None,
        Field(description="Answer as of this time (ISO 8601, UTC where no zone is given), else now."),
    ] = None


class ListQuery(BaseModel):
    """Parameters of a list of what is there now."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: Annotated[int, Field(ge=1, le=_MAX_LIMIT, description="Entries in one page.")] = _DEFAULT_LIMIT
    after: Annotated[str | None, Field(max_length=_MAX_TOKEN, description="`next` of the page before.")] = None


class PageQuery(ListQuery, MomentQuery):
    """Parameters of an answer that is a list."""


class Position(BaseModel):
    """
    Place in a list: the last entry that was given.

    Attributes:
        of_list: which list it is a place in, see `list_id`.
        as_of: of the whole list.
        asked: whether that time was asked for.
        name: of the entry, which no other has (in its cluster, where there is one).
        severity, loss, at: by which the list is sorted before the name, if it is.
        evaluation: row of the evaluation whose order the list has, if it has one's; place: of the entry in that order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    of_list: str
    as_of: UtcTime
    asked: bool = False
    name: str
    cluster: str | None = None
    severity: Annotated[int | None, Field(ge=0, le=_MOST_SEVERITY)] = None
    loss: float | None = None
    place: Annotated[int | None, Field(ge=0, lt=10**_MOST_DIGITS)] = None
    at: UtcTime | None = None
    evaluation: Annotated[int | None, Field(ge=1, lt=10**_MOST_DIGITS)] = None


def list_id(path: str, query: ListQuery) -> str:
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
        raise not_of_this_list() from error
    if position.of_list != of_list:
        raise not_of_this_list()
    return position


def number_of(position: Position | None) -> int | None:
    """
    Number of the last entry that was given, in a list whose entries are numbered.

    Raises:
        ProblemError: 422, the token was made by somebody else.
    """
    if position is None:
        return None
    if not position.name.isdecimal() or len(position.name) > _MOST_DIGITS:
        raise not_of_this_list()
    return int(position.name)


def moment(as_of: datetime | None, position: Position | None = None) -> datetime:
    """Time as of which to answer: as asked, else that of the page before, else now."""
    if as_of is not None:
        return as_of
    return datetime.now(timezone.utc) if position is None else position.as_of


def is_asked(as_of: datetime | None, position: Position | None) -> bool:
    """Whether the time as of which to answer was asked for, by this call or by that for the page before."""
    return as_of is not None or (position is not None and position.asked)


def page(
    entries: Sequence[_Entry], limit: int, position_of: Callable[[_Entry], Position]
) -> tuple[tuple[_Entry, ...], str | None]:
    """First `limit` of what is left of a list, and the token of the next page if there is one."""
    shown = tuple(entries[:limit])
    if len(entries) <= limit:
        return shown, None
    token = position_of(shown[-1]).model_dump_json(exclude_none=True)
    return shown, base64.urlsafe_b64encode(token.encode()).decode()


def not_of_this_list() -> ProblemError:
    """Problem with a token that is none of the list's."""
    problem = "not a token of this list; send `next` of the page before, as it is, with the same filters"
    return invalid_request([FieldError(field="query.after", problem=problem)])
