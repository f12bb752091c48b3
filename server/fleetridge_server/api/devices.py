"""`/devices` and the main question: the ridge of a device."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from fleetridge.report.field_types import UtcTime
from fleetridge_server.api.gpu_lists import GpuList, ListRequest, gpu_list
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED, Span
from fleetridge_server.engine.ridge import Filter
from fleetridge_server.evaluation.judgement import MOST_GPUS_AT_ONCE, evaluation_for
from fleetridge_server.fleet.find import all_devices, device_names
from fleetridge_server.fleet.locations import DeviceCount, Where, device_counts
from fleetridge_server.fleet.members import verdict_counts
from fleetridge_server.http.answers import answered, documented, problems_of
from fleetridge_server.http.parameters import (
    NO_DEVICE,
    ClusterFilter,
    DtypeFilter,
    OpenDatabase,
    PageQuery,
    Position,
    RegimeFilter,
    VerdictFilter,
    is_asked,
    list_id,
    moment,
    named,
    not_of_this_list,
    page,
    position_after,
    states_of,
    the_device,
)
from fleetridge_server.responses.device import DeviceList, DeviceRidge, DeviceSummary, gpu_row
from fleetridge_server.responses.verdict import ListedGpu, VerdictShown, evaluated_by, state_shown, verdict_shown
from fleetridge_server.text import device as device_text
from fleetridge_server.verdicts.roof_shapes import shape_of
from fleetridge_server.verdicts.stored import EvaluationRef, evaluations_at


def counted_devices(
    session: Session, span: Span, cluster: str | None, *, asked: bool
) -> tuple[list[DeviceCount], dict[int, EvaluationRef]]:
    """
    Devices that have gpus in a cluster (None for any), sorted by name, and the evaluations that answer for them.

    Args:
        session: to read in.
        span: time, and real or simulated gpus.
        cluster: only there.
        asked: whether the time was asked for.
    """
    devices = {device.id for device in all_devices(session)}
    evaluations = evaluations_at(session, devices, span, explicit=asked)
    others = {device_id for device_id in devices if asked and not _is_current(evaluations.get(device_id))}
    where = Where(None if span.simulated else cluster)
    counts = device_counts(session, span, where, device_ids=devices - others, by_verdict=True)
    if others:
        counts += device_counts(session, span, where, device_ids=others)
    found = {count.device.id for count in counts} & others
    if sum(count.gpus for count in counts) <= MOST_GPUS_AT_ONCE:
        made = {device_id: evaluation_for(session, device_id, span, explicit=True) for device_id in found}
        evaluations |= {device_id: ref for device_id, ref in made.items() if ref is not None}
    return sorted(counts, key=lambda count: count.device.name), evaluations


def _is_current(ref: EvaluationRef | None) -> bool:
    return ref is not None and ref.is_current


router = APIRouter(tags=["devices"])


class DevicesQuery(PageQuery):
    """Parameters of the list of devices."""

    cluster: ClusterFilter = None


class RidgeQuery(DevicesQuery):
    """Parameters of the ridge; filters choose what is listed, never who the peers are."""

    node: Annotated[str | None, Field(description="Only gpus of nodes with this name.")] = None
    dtype: DtypeFilter = None
    regime: RegimeFilter = None
    driver: Annotated[str | None, Field(description="Only gpus whose newest rates were measured with this driver.")] = (
        None
    )
    verdict: VerdictFilter = None
    since: Annotated[UtcTime | None, Field(description="Only what was measured from then on (ISO 8601).")] = None


@router.get("/devices", response_model=DeviceList, responses=documented())
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
        counts, evaluations = counted_devices(session, span, query.cluster, asked=asked)
        if position is not None:
            counts = [count for count in counts if count.device.name > position.name]
        shown, following = page(
            counts,
            query.limit,
            lambda count: Position(of_list=this_list, as_of=span.as_of, asked=asked, name=count.device.name),
        )
        summaries = tuple(_summaries(session, shown, evaluations, query, span.as_of if asked else None))
    # A list that goes on shows evaluations that came since it began.
    as_of = max([span.as_of, *(own.evaluated_as_of for own in summaries if own.evaluated_as_of is not None)])
    return answered(request, DeviceList(as_of=as_of, devices=summaries, next=following), device_text.device_list)


@router.get("/devices/{name:path}/ridge", response_model=DeviceRidge, responses=documented({404: NO_DEVICE}))
def get_device_ridge(
    request: Request, database: OpenDatabase, name: str, query: Annotated[RidgeQuery, Query()]
) -> Response:
    """
    How fast the gpus of a device are, and which of them are slower than their peers: worst first.

    `name` is any name that a driver gave the device, its canonical name or its slug, spelled exactly. Filters choose
    which gpus and roofs are listed; peers are always all gpus of the device, wherever they are.
    """
    return answered(request, read_ridge(database, name, query).answer, device_text.device_ridge)


@router.get(
    "/devices/{name:path}/ridge.csv",
    response_class=Response,
    responses={
        200: {
            "content": {"text/csv": {"schema": {"type": "string"}}},
            "headers": {"Link": {"description": "`rel=next`: the next page.", "schema": {"type": "string"}}},
        },
        **problems_of({404: NO_DEVICE}),
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
    return Response(device_text.ridge_csv(answer), media_type="text/csv; charset=utf-8", headers=link)


@dataclass(frozen=True, slots=True)
class RidgeRead:
    """The answer, and what it was made from."""

    answer: DeviceRidge
    gpus: GpuList


def read_ridge(database: Database, name: str, query: RidgeQuery, *, drawn: bool = False) -> RidgeRead:
    """
    The answer with what it was made from, for charts where they will be drawn.

    Raises:
        ProblemError: 404, there is no such device; 422, the position is of another list.
    """
    this_list = list_id(f"/devices/{name}/ridge", query)
    position = position_after(query.after, this_list)
    if position is not None and query.as_of is not None and (query.as_of != position.as_of or not position.asked):
        raise not_of_this_list()
    span = Span(moment(query.as_of, position), query.since, simulated=query.cluster == SIMULATED)
    only = Filter(query.dtype, query.regime)
    with database.reading() as session:
        device = the_device(session, name)
        asked = ListRequest(
            device=device,
            span=span,
            is_past=is_asked(query.as_of, position),
            where=Where(None if span.simulated else query.cluster, query.node),
            only=only,
            states=states_of(query.verdict),
            driver=query.driver,
            limit=query.limit,
            position=position,
            of_list=this_list,
            drawn=drawn,
        )
        found = gpu_list(session, asked)
        names = named(session, device)
        verdicts = verdict_counts(session, found.ref, is_past=asked.is_past)
    ref, body = found.ref, None if found.ref is None else found.ref.body
    answer = DeviceRidge(
        device=names,
        as_of=found.as_of,
        **evaluated_by(ref, device=device.slug, asked=span.as_of if asked.is_past else None),
        verdicts=verdicts,
        notices=() if body is None else body.notices,
        cohorts=() if body is None else tuple(own for own in body.cohorts if only.takes_roof(own.roof)),
        ridges=found.ridges,
        bandwidths=found.bandwidths,
        gpus=tuple(gpu_row(gpu.location, gpu.roofs, _verdict(gpu), gpu.unjudged, found.as_of) for gpu in found.shown),
        next=found.next,
    )
    return RidgeRead(answer, found)


def _verdict(gpu: ListedGpu) -> VerdictShown | None:
    if gpu.said is not None:
        return verdict_shown(*gpu.said)
    return None if gpu.summary is None else state_shown(gpu.summary)


def _summaries(
    session: Session,
    counts: Sequence[DeviceCount],
    evaluations: Mapping[int, EvaluationRef],
    query: DevicesQuery,
    asked: datetime | None,
) -> Iterator[DeviceSummary]:
    names = device_names(session, [count.device.id for count in counts])
    cluster = None if query.cluster == SIMULATED else query.cluster
    for count in counts:
        device, ref = count.device, evaluations.get(count.device.id)
        figures = None if ref is None else ref.body.figures
        yield shape_of(
            DeviceSummary,
            count,
            name=device.name,
            slug=device.slug,
            names=names[device.id],
            **evaluated_by(ref, device=device.slug, asked=asked),
            verdicts=verdict_counts(session, ref, cluster, is_past=asked is not None),
            ridges=() if figures is None else figures.ridges,
            bandwidths=() if figures is None else figures.bandwidths,
        )
