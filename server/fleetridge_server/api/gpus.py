"""One gpu: who and where it is, what it reaches against its peers, what it reported."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from fleetridge_server import text
from fleetridge_server.answer import devices as device_answers
from fleetridge_server.answer.schemas import DeviceName, GpuAnswer
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.negotiation import answered, documented
from fleetridge_server.api.paging import MomentQuery, moment
from fleetridge_server.compare.ridge import compare_one
from fleetridge_server.compare.span import Span
from fleetridge_server.problems import ProblemError
from fleetridge_server.store.current import values_of_devices
from fleetridge_server.store.lookup import device_names, gpu_named
from fleetridge_server.store.models import Device
from fleetridge_server.store.places import place_of_gpu
from fleetridge_server.store.summaries import reports_of_gpu

router = APIRouter(tags=["gpus"])


class GpuQuery(MomentQuery):
    """Parameters of one gpu."""

    cluster: Annotated[
        Literal["simulated"] | None, Field(description="`simulated` for a made-up gpu, else a real one.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="Reports to list, newest first.")] = 20


@router.get(
    "/gpus/{gpu_id:path}",
    response_model=GpuAnswer,
    responses=documented({404: "No gpu has this id.", 422: "A parameter is not as described."}),
)
def get_gpu(request: Request, database: OpenDatabase, gpu_id: str, query: Annotated[GpuQuery, Query()]) -> Response:
    """
    One gpu, by its UUID or, where the driver gives none, by the `noid-…` that stands in for it.

    Its roofs are compared with all gpus of its device; `other_roofs` are shown only.
    """
    span = Span(moment(query.as_of), simulated=query.cluster is not None)
    with database.reading() as session:
        gpu = gpu_named(session, gpu_id, simulated=span.simulated)
        if gpu is None:
            detail = (
                "no gpu has this id; GET /devices lists the devices, GET /devices/{name}/ridge the gpus of one "
                "(made-up ones only with ?cluster=simulated)"
            )
            raise ProblemError(404, "unknown_gpu", "There is no such gpu", detail)
        place = place_of_gpu(session, gpu.id, span)
        device = session.get_one(Device, gpu.device_id if place is None else place.device_id)
        names = device_names(session, [device.id])[device.id]
        own = compare_one(gpu_id, values_of_devices(session, [device.id], span)[device.id])
        reports = [
            device_answers.report_summary(named)
            for named in reports_of_gpu(session, gpu.id, as_of=span.as_of, limit=query.limit)
        ]
    answer = GpuAnswer(
        gpu_id=gpu.identity,
        as_of=span.as_of,
        device=DeviceName(name=device.name, slug=device.slug, names=names),
        cluster=gpu.cluster if place is None else place.cluster,
        node=None if place is None else place.node,
        index=gpu.gpu_index,
        pci_bus_id=gpu.pci_bus_id,
        architecture=gpu.architecture,
        memory_bytes=gpu.memory_bytes,
        sm_count=gpu.sm_count,
        mig_profile=gpu.mig_profile,
        partition=gpu.partition,
        first_seen=gpu.first_seen,
        last_seen=gpu.last_seen,
        latest=reports[0] if reports else None,
        **device_answers.gpu_figures(own, span.as_of),
        other_roofs=tuple(device_answers.shown_roof(value, span.as_of) for value in own.others),
        reports=tuple(reports),
    )
    return answered(request, answer, text.gpu)
