"""
Parameters that routes share: the database, names of devices and gpus, filters by state, times, pages of lists.

Pages go by key: the token of the next page says after which entry it begins, and as of when the list was made. So a
list that goes on over several calls stays one list, whatever is measured meanwhile.

A route that reads is a plain function, which runs in a thread, and opens its own transaction:

    @router.get("/devices")
    def devices(database: OpenDatabase) -> …:
        with database.reading() as session:
            …
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.orm import Session

from fleetridge.report.field_types import UtcTime
from fleetridge_server.db.database import Database
from fleetridge_server.db.tables import Device, Gpu
from fleetridge_server.engine.gpu_state import STATES
from fleetridge_server.fleet.find import device_named, device_names, gpu_named
from fleetridge_server.problems import FieldError, ProblemError, invalid_request
from fleetridge_server.verdicts.roof_shapes import DeviceName


async def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


OpenDatabase = Annotated[Database, Depends(_database)]
"""The app's database, as a route's argument."""


def the_device(session: Session, name: str) -> Device:
    """The device of this name. Raises ProblemError: 404, there is none."""
    device = device_named(session, name)
    if device is None:
        detail = "no device has this name or slug, spelled exactly so; GET /devices lists them"
        raise ProblemError(404, "unknown_device", "There is no such device", detail)
    return device


NO_DEVICE = "No device has this name or slug."


def named(session: Session, device: Device) -> DeviceName:
    """A device with all its names."""
    return DeviceName(name=device.name, slug=device.slug, names=device_names(session, [device.id])[device.id])


def the_gpu(session: Session, gpu_id: str, *, simulated: bool) -> Gpu:
    """The gpu of this id. Raises ProblemError: 404, there is none."""
    gpu = gpu_named(session, gpu_id, simulated=simulated)
    if gpu is None:
        detail = (
            "no gpu has this id; GET /devices lists the devices, GET /devices/{name}/ridge the gpus of one "
            "(made-up ones only with ?cluster=simulated)"
        )
        raise ProblemError(404, "unknown_gpu", "There is no such gpu", detail)
    return gpu


_STATES: frozenset[str] = frozenset(STATES)
_ONE = f"({'|'.join(STATES)})"
_LONGEST = 200


def states_of(words: str | None) -> frozenset[str] | None:
    """States of a filter, None where all are wanted."""
    return None if words is None else frozenset(words.split(","))


def _known(words: str | None) -> str | None:
    """Words of a filter, checked. Raises ValueError: one is no state."""
    if words is not None and not _STATES.issuperset(words.split(",")):
        raise ValueError(f"not states with commas between them; choose from {', '.join(STATES)}")
    return words


ClusterFilter = Annotated[
    str | None, Field(description="Only gpus of this cluster; `simulated` for made-up gpus, else left out.")
]
DtypeFilter = Annotated[str | None, Field(description="Only roofs of this dtype, such as `bfloat16`.")]
RegimeFilter = Annotated[str | None, Field(description="Only roofs of this regime, such as `burst`.")]

VerdictFilter = Annotated[
    str | None,
    AfterValidator(_known),
    Field(
        max_length=_LONGEST,
        description="Only gpus in one of these states (`outlier,suspect`), now or when they were last measured.",
        json_schema_extra={"pattern": f"^{_ONE}(,{_ONE})*$"},  # described only: our own words say what is wrong
    ),
]
"""States with commas between them."""


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
