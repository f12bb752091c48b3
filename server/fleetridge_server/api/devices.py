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
from fleetridge_server.answer.device_schemas import DeviceList, DeviceRidge, DeviceSummary
from fleetridge_server.answer.devices import gpu_row
from fleetridge_server.answer.figure_schemas import CohortFigures
from fleetridge_server.answer.figures import live_figures
from fleetridge_server.answer.schemas import FleetBandwidth, FleetRidge
from fleetridge_server.answer.told import evaluated_by, verdict_shown
from fleetridge_server.answer.told_schemas import VerdictShown
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.figures import counted_devices, stored_figures
from fleetridge_server.api.filters import VerdictFilter, states_of
from fleetridge_server.api.naming import named, the_device
from fleetridge_server.api.negotiation import answered, documented, problems_of
from fleetridge_server.api.paging import PageQuery, Position, is_asked, list_id, moment, page, position_after
from fleetridge_server.api.ridge_lists import Asked, gpu_list
from fleetridge_server.compare.cohort_values import peers_of_values
from fleetridge_server.compare.ranking import Standing
from fleetridge_server.compare.ridge import Filter
from fleetridge_server.compare.span import SIMULATED, Span
from fleetridge_server.store.cohort_values import cohort_values
from fleetridge_server.store.database import Database
from fleetridge_server.store.lookup import device_names
from fleetridge_server.store.locations import DeviceCount, Where
from fleetridge_server.store.told import Head, Told, bodies_in_short, verdict_counts

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
        counts, told = counted_devices(session, span, query.cluster, asked=asked)
        if position is not None:
            counts = [count for count in counts if count.device.name > position.name]
        shown, following = page(
            counts,
            query.limit,
            lambda count: Position(of_list=this_list, as_of=span.as_of, asked=asked, name=count.device.name),
        )
        summaries = _summaries(session, shown, told, span, query, asked=asked)
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


@router.get(
    "/devices/{name:path}/ridge.csv",
    response_class=Response,
    responses={
        200: {
            "content": {"text/csv": {"schema": {"type": "string"}}},
            "headers": {"Link": {"description": "`rel=next`: the next page.", "schema": {"type": "string"}}},
        },
        **problems_of({404: "No device has this name or slug.", 422: _UNFIT}),
    },
)
def get_device_ridge_as_csv(
    request: Request, database: OpenDatabase, name: str, query: Annotated[RidgeQuery, Query()]
) -> Response:
    """
    The gpus of that answer as CSV, a row for each gpu and judged roof; `Link` has the address of the next page.

    Cells that a spreadsheet would take for a formula begin with an apostrophe.
    """
    answer = read_ridge(database, name, query).answer
    following = request.url.include_query_params(after=answer.next)
    link = {} if answer.next is None else {"Link": f'<{following.path}?{following.query}>; rel="next"'}
    return Response(text.ridge_csv(answer), media_type="text/csv; charset=utf-8", headers=link)


@dataclass(frozen=True, slots=True)
class RidgeRead:
    """
    The answer, and what it was made from.

    Attributes:
        told: evaluation that it rests on.
        gpus: to draw, worst first; heads: what is said of them in a line.
        listed: how many gpus the filters take.
        is_complete: whether `gpus` are all of them.
        quantiles: of all peers in each listed roof, where they are not.
    """

    answer: DeviceRidge
    told: Told | None
    gpus: tuple[Standing, ...]
    heads: Mapping[str, Head]
    listed: int
    is_complete: bool
    quantiles: tuple[CohortFigures, ...]


def read_ridge(database: Database, name: str, query: RidgeQuery, *, drawn: bool = False) -> RidgeRead:
    """
    The answer with what it was made from.

    Args:
        database: to read from.
        name: of the device.
        query: what is asked for.
        drawn: whether charts will be drawn.

    Raises:
        ProblemError: 404, there is no such device; 422, the position is of another list.
    """
    this_list = list_id(f"/devices/{name}/ridge", query)
    position = position_after(query.after, this_list)
    span = Span(moment(query.as_of, position), query.since, simulated=query.cluster == SIMULATED)
    only = Filter(query.dtype, query.regime)
    with database.reading() as session:
        device = the_device(session, name)
        asked = Asked(
            device=device,
            span=span,
            is_past=is_asked(query.as_of, position),
            where=Where(query.cluster, query.node),
            only=only,
            states=states_of(query.verdict),
            driver=query.driver,
            limit=query.limit,
            position=position,
            of_list=this_list,
            drawn=drawn,
        )
        found = gpu_list(session, asked)
        verdicts = _verdicts(session, found.told, [gpu.rank.gpu_id for gpu in found.shown])
        names = named(session, device)
    told, body = found.told, None if found.told is None else found.told.body
    answer = DeviceRidge(
        device=names,
        as_of=span.as_of,
        **evaluated_by(told, device=device.slug, asked=span.as_of if asked.is_past else None),
        verdicts={} if body is None else body.counts,
        notices=() if body is None else body.notices,
        cohorts=() if body is None else tuple(own for own in body.cohorts if only.takes_roof(own.roof)),
        ridges=found.ridges,
        bandwidths=found.bandwidths,
        gpus=tuple(gpu_row(gpu, verdicts.get(gpu.rank.gpu_id), span.as_of) for gpu in found.shown),
        next=found.next,
    )
    own = found.drawn
    return RidgeRead(answer, told, own.gpus, own.heads, own.listed, own.is_complete, own.quantiles)


def _verdicts(session: Session, told: Told | None, gpu_ids: Sequence[str]) -> dict[str, VerdictShown]:
    """Verdicts on some gpus in short."""
    if told is None:
        return {}
    return {gpu_id: verdict_shown(*found) for gpu_id, found in bodies_in_short(session, told, gpu_ids).items()}


def _summaries(
    session: Session,
    counts: Sequence[DeviceCount],
    told: Mapping[int, Told],
    span: Span,
    query: DevicesQuery,
    *,
    asked: bool,
) -> tuple[DeviceSummary, ...]:
    ids = [count.device.id for count in counts]
    names, figures = device_names(session, ids), _figures(session, counts, told, span, asked=asked)
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
            ridges=figures[count.device.id][0],
            bandwidths=figures[count.device.id][1],
        )
        for count in counts
    )


def _figures(
    session: Session, counts: Sequence[DeviceCount], told: Mapping[int, Told], span: Span, *, asked: bool
) -> dict[int, tuple[tuple[FleetRidge, ...], tuple[FleetBandwidth, ...]]]:
    """Ridges and bandwidths of some devices, as they are stored where they are."""
    stored = {count.device.id: stored_figures(told.get(count.device.id), asked=asked) for count in counts}
    found = {device_id: (own.ridges, own.bandwidths) for device_id, own in stored.items() if own is not None}
    names = {count.device.id: count.device.name for count in counts if count.device.id not in found}
    for device_id, name in names.items():
        values = cohort_values(session, device_id, span, Filter(), betas=True)
        found[device_id] = live_figures(values, peers_of_values(values), Filter(), name)
    return found
