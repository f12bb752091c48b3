"""Devices, and the main question: how fast the gpus of one are and which of them are slower than their peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from fleetridge.report.values import UtcTime
from fleetridge_server import text
from fleetridge_server.answer import devices as device_answers
from fleetridge_server.answer.schemas import DeviceList, DeviceName, DeviceRidge, DeviceSummary
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.negotiation import answered, documented
from fleetridge_server.api.paging import PageQuery, Position, list_id, moment, page, position_after
from fleetridge_server.compare.cohort import GpuValue
from fleetridge_server.compare.ranking import Rank, Standing, standings
from fleetridge_server.compare.ridge import Filter, compare, listed
from fleetridge_server.compare.span import SIMULATED, Span
from fleetridge_server.problems import ProblemError
from fleetridge_server.store.current import values_of_devices
from fleetridge_server.store.lookup import device_named, device_names
from fleetridge_server.store.places import DeviceCount, Where, device_counts, places_of_device

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
    with database.reading() as session:
        counts = device_counts(session, span, Where(query.cluster))
        if position is not None:
            counts = [count for count in counts if count.device.name > position.name]
        shown, following = page(
            counts,
            query.limit,
            lambda count: Position(of_list=this_list, as_of=span.as_of, name=count.device.name),
        )
        summaries = _summaries(session, shown, span)
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
    this_list = list_id(request.url.path, query)
    position = position_after(query.after, this_list)
    span = Span(moment(query.as_of, position), query.since, simulated=query.cluster == SIMULATED)
    only = Filter(query.dtype, query.regime)
    with database.reading() as session:
        device = device_named(session, name)
        if device is None:
            detail = "no device has this name or slug, spelled exactly so; GET /devices lists them"
            raise ProblemError(404, "unknown_device", "There is no such device", detail)
        names = device_names(session, [device.id])[device.id]
        roofs = compare(values_of_devices(session, [device.id], span)[device.id])
        places = places_of_device(session, device.id, span, Where(query.cluster, query.node))
    gpus = standings(places, roofs, only, measured_only=only.is_set or query.since is not None)
    shown, following = page(_left_of(gpus, position), query.limit, lambda gpu: _position(gpu, this_list, span))
    answer = DeviceRidge(
        device=DeviceName(name=device.name, slug=device.slug, names=names),
        as_of=span.as_of,
        **device_answers.fleet_figures([listed(own, only) for own in roofs.values()], device.name),
        gpus=tuple(device_answers.gpu_row(gpu, span.as_of) for gpu in shown),
        next=following,
    )
    return answered(request, answer, text.device_ridge)


def _left_of(gpus: list[Standing], position: Position | None) -> list[Standing]:
    """What comes after a position in a list of gpus."""
    if position is None:
        return gpus
    reached = Rank(position.deviation is None, position.deviation or 0.0, position.name)
    return [gpu for gpu in gpus if gpu.rank > reached]


def _position(gpu: Standing, of_list: str, span: Span) -> Position:
    deviation = None if gpu.rank.unmeasured else gpu.rank.deviation
    return Position(of_list=of_list, as_of=span.as_of, name=gpu.rank.gpu_id, deviation=deviation)


def _summaries(session: Session, counts: Sequence[DeviceCount], span: Span) -> tuple[DeviceSummary, ...]:
    ids = [count.device.id for count in counts]
    names, values = device_names(session, ids), values_of_devices(session, ids, span)
    return tuple(_summary(count, names[count.device.id], values[count.device.id]) for count in counts)


def _summary(count: DeviceCount, names: tuple[str, ...], values: Sequence[GpuValue]) -> DeviceSummary:
    return DeviceSummary(
        name=count.device.name,
        slug=count.device.slug,
        names=names,
        gpus=count.gpus,
        nodes=count.nodes,
        newest_report=count.newest_report,
        **device_answers.fleet_figures(compare(values).values(), count.device.name),
    )
