"""
Parameters that routes share: the database, names of devices and gpus, filters by state, JSON or text.

A route that reads is a plain function, which runs in a thread, and opens its own transaction:

    @router.get("/devices")
    def devices(database: OpenDatabase) -> …:
        with database.reading() as session:
            …
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from pydantic import AfterValidator, Field
from sqlalchemy.orm import Session

from fleetridge_server.db.database import Database
from fleetridge_server.db.tables import Device, Gpu
from fleetridge_server.engine.state import STATES
from fleetridge_server.fleet.find import device_named, device_names, gpu_named
from fleetridge_server.problems import Problem, ProblemError
from fleetridge_server.verdicts.roof_shapes import Answer, DeviceName


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


JSON = "application/json"
TEXT = "text/plain"

# An answer differs by Accept, so that a cache may not give one form to who asked for the other.
_VARY = {"Vary": "Accept"}

_ALWAYS = {503: "The database does not answer just now; ask again after Retry-After seconds."}

_AnswerT = TypeVar("_AnswerT", bound=Answer)


def answered(request: Request, answer: _AnswerT, as_text: Callable[[_AnswerT], str]) -> Response:
    """Answer in the form that the request accepts."""
    if wants_text(", ".join(request.headers.getlist("accept"))):
        return Response(f"{as_text(answer)}\n", media_type=f"{TEXT}; charset=utf-8", headers=_VARY)
    return Response(answer.model_dump_json(), media_type=JSON, headers=_VARY)


def wants_text(accept: str) -> bool:
    """
    Whether an Accept header asks for text rather than JSON.

    The higher `q` wins, then the more specific range; between equals, as in curl's `*/*`, JSON does.
    """
    ranges = [_parsed(part) for part in accept.split(",") if part.strip()]
    return _preference(TEXT, ranges) > _preference(JSON, ranges)


def documented(problems: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """Descriptions of a route's answers: the text form beside JSON, and its errors by status."""
    return {200: {"content": {TEXT: {"schema": {"type": "string"}}}}} | problems_of(problems)


def problems_of(problems: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """Descriptions of a route's errors by status, with those that every route has."""
    return {status: {"model": Problem, "description": words} for status, words in (problems | _ALWAYS).items()}


def _preference(media_type: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """Quality of a type and how specifically it was named: not at all (0), `*/*` (1), `text/*` (2), in full (3)."""
    kind = media_type.partition("/")[0]
    for specificity, name in ((3, media_type), (2, f"{kind}/*"), (1, "*/*")):
        qualities = [quality for named, quality in ranges if named == name]
        if qualities:
            best = max(qualities)
            return best, specificity if best > 0 else 0
    return 0.0, 0


def _parsed(part: str) -> tuple[str, float]:
    """Media range in lower case with its quality, 1 where none is given or it is no number of 0 to 1."""
    name, *parameters = (word.strip().lower() for word in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, _quality(value.strip())
    return name, 1.0


def _quality(value: str) -> float:
    try:
        quality = float(value)
    except ValueError:
        return 1.0
    return quality if 0 <= quality <= 1 else 1.0
