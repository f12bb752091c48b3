"""What served models can expect of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from fleetridge.weight_shapes import DEFAULT_MODEL, SERVED_MODELS, WeightShape, served_model
from fleetridge.workloads import DEFAULT_GQA_GROUP, DEFAULT_HIDDEN_SIZE, DEFAULT_PREFILL_TOKENS
from fleetridge_server import text
from fleetridge_server.answer.workload_schemas import DeviceWorkloads
from fleetridge_server.answer.workloads import Asked, ridge_workloads
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.naming import named, the_device
from fleetridge_server.api.negotiation import answered, documented
from fleetridge_server.api.paging import MomentQuery, moment
from fleetridge_server.compare.placements import ridges_by_cohort
from fleetridge_server.compare.ridge import Filter
from fleetridge_server.compare.span import SIMULATED, Span
from fleetridge_server.field_errors import FieldError
from fleetridge_server.problems import ProblemError
from fleetridge_server.store.cohort_values import cohort_values
from fleetridge_server.store.database import Database
from fleetridge_server.store.places import Where, gpus_there

router = APIRouter(tags=["devices"])

ALL_MODELS = "all"

# Beyond these no model is served; larger numbers are slips of the pen.
_MOST_WIDE = 1 << 20
_MOST_TOKENS = 1 << 27


class WorkloadsQuery(MomentQuery):
    """Parameters of the workloads."""

    cluster: Annotated[
        str | None, Field(description="Only gpus of this cluster; `simulated` for made-up gpus, else left out.")
    ] = None
    dtype: Annotated[str | None, Field(description="Only roofs of this dtype, such as `bfloat16`.")] = None
    regime: Annotated[str | None, Field(description="Only roofs of this regime, such as `burst`.")] = None
    model: Annotated[
        str,
        Field(
            description="Weight shapes of this model, by its key on the Hugging Face hub; `all` for all.",
            json_schema_extra={"enum": [ALL_MODELS, *SERVED_MODELS]},
        ),
    ] = DEFAULT_MODEL
    tp: Annotated[int, Field(ge=1, le=1024, description="Gpus over which a model is split.")] = 1
    hidden_size: Annotated[int, Field(ge=1, le=_MOST_WIDE, description="Width of the square projection.")] = (
        DEFAULT_HIDDEN_SIZE
    )
    gqa_group: Annotated[int, Field(ge=1, le=_MOST_WIDE, description="Query heads that share a KV head.")] = (
        DEFAULT_GQA_GROUP
    )
    prefill_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS, description="Length of the prompt.")] = (
        DEFAULT_PREFILL_TOKENS
    )


@router.get(
    "/devices/{name:path}/workloads",
    response_model=DeviceWorkloads,
    responses=documented({404: "No device has this name or slug.", 422: "A parameter is not as described."}),
)
def get_device_workloads(
    request: Request, database: OpenDatabase, name: str, query: Annotated[WorkloadsQuery, Query()]
) -> Response:
    """
    The reference workloads and weight shapes of served models on the measured roofs of a device's gpus.

    For burst and sustained, each with what a typical gpu reaches, what the slowest does and how far the fleet spreads.
    """
    return answered(request, read_workloads(database, name, query), text.workloads)


def read_workloads(database: Database, name: str, query: WorkloadsQuery) -> DeviceWorkloads:
    """
    The answer.

    Raises:
        ProblemError: 404, there is no such device; 422, no such model, or it cannot be split so.
    """
    asked = Asked(_shapes(query), query.hidden_size, query.gqa_group, query.prefill_tokens)
    span = Span(moment(query.as_of), simulated=query.cluster == SIMULATED)
    only = Filter(query.dtype, query.regime)
    with database.reading() as session:
        device = the_device(session, name)
        names = named(session, device)
        values = cohort_values(session, device.id, span, only, betas=True)
        gpus = gpus_there(session, device.id, span, Where(query.cluster))
    return DeviceWorkloads(
        device=names,
        as_of=span.as_of,
        hidden_size=query.hidden_size,
        gqa_group=query.gqa_group,
        prefill_tokens=query.prefill_tokens,
        tp=query.tp,
        ridges=ridge_workloads(ridges_by_cohort(values, gpus, only), asked),
    )


def _shapes(query: WorkloadsQuery) -> Mapping[str, Sequence[WeightShape]]:
    """Weight shapes by model; of all models those that can be split so."""
    if query.model == ALL_MODELS:
        fitting = [model for model in SERVED_MODELS.values() if query.tp in model.allowed_tp]
        return {model.key: model.divided_by(query.tp) for model in fitting}
    try:
        return {query.model: served_model(query.model).divided_by(query.tp)}
    except ValueError as error:
        field = "query.tp" if query.model in SERVED_MODELS else "query.model"
        fault = FieldError(field=field, problem=str(error))
        title = "The request is not as documented"
        raise ProblemError(422, "invalid_request", title, f"{field}: {error}", errors=[fault]) from error
