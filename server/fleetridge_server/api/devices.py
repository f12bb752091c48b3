"""Devices, and the main question: how fast the gpus of one are and which of them are slower than their peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from fleetridge.report.values import UtcTime
from fleetridge_server import text
from fleetridge_server.answer import devices as device_answers
from fleetridge_server.answer.device_schemas import DeviceList, DeviceRidge, DeviceSummary
from fleetridge_server.answer.devices import newest_value
from fleetridge_server.answer.told import evaluated_by, verdict_shown
from fleetridge_server.answer.told_schemas import VerdictShown
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.evaluations import evaluation_for
from fleetridge_server.api.filters import VerdictFilter, states_of
from fleetridge_server.api.naming import named, the_device
from fleetridge_server.api.negotiation import answered, documented
from fleetridge_server.api.paging import PageQuery, Position, is_asked, list_id, moment, page, position_after
from fleetridge_server.compare.place import GpuPlace
from fleetridge_server.compare.ranking import NOT_ACCUSED, Rank, Standing, severity, standings
from fleetridge_server.compare.ridge import Filter, GpuRoofs, compare, listed
from fleetridge_server.compare.span import SIMULATED, Span
from fleetridge_server.store.current import values_of_devices
from fleetridge_server.store.database import Database
from fleetridge_server.store.levels import levels_of_reports
from fleetridge_server.store.lookup import device_names
from fleetridge_server.store.places import DeviceCount, Where, device_counts, places_of_device
from fleetridge_server.store.told import Head, Told, bodies, heads, told_of_devices, verdict_counts
from fleetridge_server.verdict.state import ACCUSING

router = APIRouter(tags=["devices"])

_UNFIT = "A parameter is not as described."


class DevicesQuery(PageQuery):
    """Parameters of the list of devices."""

    cluster: Annotated[
        str | None, Field(description="Only this cluster; `simulated` for made-up gpus, else left out.")
    ] = None


class RidgeQuery(DevicesQuery):
    """Parameters of the ridge; filters choose what is listed, never who the peers are."""

    node: Annotated[str | None, Field(description="Only gpus of nodes with this name.")] = None
    dtype: Annotated[str | None, Field(description="Only roofs of this dtype, such as `bfloat16`.")] = None
    regime: Annotated[str | None, Field(description="Only roofs of this regime, such as `burst`.")] = None
    driver: Annotated[str | None, Field(description="Only gpus whose newest rates were measured with this driver.")] = (
        None
    )
    verdict: VerdictFilter = None
    since: Annotated[UtcTime | None, Field(description="Only what was measured from then on (ISO 8601).")] = None


@router.get("/devices", response_model=DeviceList, responses=documented({422: _UNFIT}))
def get_devices(request: Request, database: OpenDatabase, query: Annotated[DevicesQuery, Query()]) -> Response:
    """
    Every device by name: its gpus and nodes, its newest report, and what its gpus reach.

    With a cluster, devices that it does not have are left out and its gpus and nodes are counted; the distributions
    are still those of all peers.
    """
    this_list = list_id(request.url.path, query)
    position = position_after(query.after, this_list)
    span = Span(moment(query.as_of, position), simulated=query.cluster == SIMULATED)
    asked = is_asked(query.as_of, position)
    with database.reading() as session:
        counts = device_counts(session, span, Where(query.cluster))
        if position is not None:
            counts = [count for count in counts if count.device.name > position.name]
        shown, following = page(
            counts,
            query.limit,
            lambda count: Position(of_list=this_list, as_of=span.as_of, asked=asked, name=count.device.name),
        )
        summaries = _summaries(session, shown, span, query, asked=asked)
    return answered(request, DeviceList(as_of=span.as_of, devices=summaries, next=following), text.device_list)


@router.get(
    "/devices/{name:path}/ridge",
    response_model=DeviceRidge,
    responses=documented({404: "No device has this name or slug.", 422: _UNFIT}),
)
def get_device_ridge(
    request: Request, database: OpenDatabase, name: str, query: Annotated[RidgeQuery, Query()]
) -> Response:
    """
    How fast the gpus of a device are, and which of them are slower than their peers: worst first.

    `name` is any name that a driver gave the device, its canonical name or its slug, spelled exactly. Filters choose
    which gpus and roofs are listed; peers are always all gpus of the device, wherever they are.
    """
    return answered(request, read_ridge(database, name, query).answer, text.device_ridge)


@dataclass(frozen=True, slots=True)
class RidgeRead:
    """
    The answer, and what it was made from.

    Attributes:
        told: evaluation that it rests on.
        gpus: all that the filters take, on every page of the list, worst first.
    """

    answer: DeviceRidge
    told: Told | None
    gpus: tuple[Standing, ...]


def read_ridge(database: Database, name: str, query: RidgeQuery) -> RidgeRead:
    """
    The answer with what it was made from.

    Raises:
        ProblemError: 404, there is no such device; 422, the position is of another list.
    """
    this_list = list_id(f"/devices/{name}/ridge", query)
    position = position_after(query.after, this_list)
    span = Span(moment(query.as_of, position), query.since, simulated=query.cluster == SIMULATED)
    only = Filter(query.dtype, query.regime)
    asked = is_asked(query.as_of, position)
    with database.reading() as session:
        device = the_device(session, name)
        roofs = compare(values_of_devices(session, [device.id], span)[device.id])
        places = places_of_device(session, device.id, span, Where(query.cluster, query.node))
        if query.driver is not None:
            places = _with_driver(session, places, roofs, query.driver)
        told = evaluation_for(session, device.id, span, explicit=asked)
        said = {} if told is None else heads(session, told, states=states_of(query.verdict) or ACCUSING)
        gpus = _standings(places, roofs, said, query)
        shown, following = page(
            _left_of(gpus, position), query.limit, lambda gpu: _position(gpu, this_list, span, asked=asked)
        )
        verdicts = _verdicts(session, told, [gpu.rank.gpu_id for gpu in shown])
        names = named(session, device)
    body = None if told is None else told.body
    answer = DeviceRidge(
        device=names,
        as_of=span.as_of,
        **evaluated_by(told, device=device.slug, asked=span.as_of if asked else None),
        verdicts={} if body is None else body.counts,
        notices=() if body is None else body.notices,
        cohorts=() if body is None else tuple(own for own in body.cohorts if only.takes_roof(own.roof)),
        **device_answers.fleet_figures([listed(own, only) for own in roofs.values()], device.name),
        gpus=tuple(device_answers.gpu_row(gpu, verdicts.get(gpu.rank.gpu_id), span.as_of) for gpu in shown),
        next=following,
    )
    return RidgeRead(answer, told, tuple(gpus))


def _with_driver(
    session: Session, places: Sequence[GpuPlace], roofs: Mapping[str, GpuRoofs], driver: str
) -> list[GpuPlace]:
    """Those places whose gpus were measured last with a driver."""
    newest = {gpu_id: value.newest.report_id for gpu_id, own in roofs.items() if (value := newest_value(own))}
    drivers = levels_of_reports(session, newest.values(), "driver")
    return [place for place in places if place.gpu_id in newest and drivers[newest[place.gpu_id]] == driver]


def _standings(
    places: Sequence[GpuPlace], roofs: Mapping[str, GpuRoofs], said: Mapping[str, Head], query: RidgeQuery
) -> list[Standing]:
    """
    Gpus to list, worst first.

    `said` has those that are accused; where the query asks for verdicts, those that have one of them.
    """
    only = Filter(query.dtype, query.regime)
    severities = {gpu_id: severity(head.state, head.last_state) for gpu_id, head in said.items()}
    if query.verdict is not None:
        places = [place for place in places if place.gpu_id in said]
    return standings(places, roofs, only, severities, measured_only=only.is_set or query.since is not None)


def _verdicts(session: Session, told: Told | None, gpu_ids: Sequence[str]) -> dict[str, VerdictShown]:
    """Verdicts on some gpus in short."""
    if told is None:
        return {}
    return {gpu_id: verdict_shown(*found) for gpu_id, found in bodies(session, told, gpu_ids).items()}


def _left_of(gpus: list[Standing], position: Position | None) -> list[Standing]:
    """What comes after a position in a list of gpus."""
    if position is None:
        return gpus
    severity_then = NOT_ACCUSED if position.severity is None else position.severity
    reached = Rank(severity_then, position.deviation is None, position.deviation or 0.0, position.name)
    return [gpu for gpu in gpus if gpu.rank > reached]


def _position(gpu: Standing, of_list: str, span: Span, *, asked: bool) -> Position:
    rank = gpu.rank
    return Position(
        of_list=of_list,
        as_of=span.as_of,
        asked=asked,
        name=rank.gpu_id,
        severity=rank.severity,
        deviation=None if rank.unmeasured else rank.deviation,
    )


def _summaries(
    session: Session, counts: Sequence[DeviceCount], span: Span, query: DevicesQuery, *, asked: bool
) -> tuple[DeviceSummary, ...]:
    ids = [count.device.id for count in counts]
    names, values = device_names(session, ids), values_of_devices(session, ids, span)
    told = told_of_devices(session, ids, span, explicit=asked)
    there = None if query.cluster in (None, SIMULATED) else query.cluster
    return tuple(
        DeviceSummary(
            name=count.device.name,
            slug=count.device.slug,
            names=names[count.device.id],
            **evaluated_by(told.get(count.device.id), device=count.device.slug, asked=span.as_of if asked else None),
            gpus=count.gpus,
            nodes=count.nodes,
            newest_report=count.newest_report,
            verdicts=verdict_counts(session, told.get(count.device.id), there),
            **device_answers.fleet_figures(compare(values[count.device.id]).values(), count.device.name),
        )
        for count in counts
    )
