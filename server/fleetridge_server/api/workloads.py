"""What served models can expect of a device."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from fleetridge.weight_shapes import DEFAULT_MODEL, SERVED_MODELS, WeightShape, served_model
from fleetridge.workloads import DEFAULT_GQA_GROUP, DEFAULT_HIDDEN_SIZE, DEFAULT_PREFILL_TOKENS
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED, Span
from fleetridge_server.engine.ridge import CohortValues, Filter, ridges_by_cohort
from fleetridge_server.evaluation.judgement import evaluation_for
from fleetridge_server.fleet.locations import Where
from fleetridge_server.fleet.members import judged_places
from fleetridge_server.http.answers import answered, documented
from fleetridge_server.http.parameters import (
    NO_DEVICE,
    ClusterFilter,
    DtypeFilter,
    MomentQuery,
    OpenDatabase,
    RegimeFilter,
    moment,
    named,
    the_device,
)
from fleetridge_server.problems import FieldError, invalid_request
from fleetridge_server.responses.verdict import cohort_values, cohorts_under, evaluated_by
from fleetridge_server.responses.workload import DeviceWorkloads, WorkloadQuery, ridge_workloads
from fleetridge_server.text import workloads as workloads_text
from fleetridge_server.verdicts.stored import EvaluationRef, columns_of, order_of

router = APIRouter(tags=["devices"])

ALL_MODELS = "all"

# Beyond these no model is served; larger numbers are slips of the pen.
_MOST_WIDE = 1 << 20
_MOST_TOKENS = 1 << 27


class WorkloadsQuery(MomentQuery):
    """Parameters of the workloads."""

    cluster: ClusterFilter = None
    dtype: DtypeFilter = None
    regime: RegimeFilter = None
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


@router.get("/devices/{name:path}/workloads", response_model=DeviceWorkloads, responses=documented({404: NO_DEVICE}))
def get_device_workloads(
    request: Request, database: OpenDatabase, name: str, query: Annotated[WorkloadsQuery, Query()]
) -> Response:
    """
    The reference workloads and weight shapes of served models on the measured roofs of a device's gpus.

    For burst and sustained, each with what a typical gpu reaches, what the slowest does and how far the fleet spreads.
    """
    return answered(request, read_workloads(database, name, query), workloads_text.workloads)


def read_workloads(database: Database, name: str, query: WorkloadsQuery) -> DeviceWorkloads:
    """
    The answer.

    Raises:
        ProblemError: 404, there is no such device; 422, no such model, or it cannot be split so.
    """
    asked = WorkloadQuery(_shapes(query), query.hidden_size, query.gqa_group, query.prefill_tokens)
    span = Span(moment(query.as_of), simulated=query.cluster == SIMULATED)
    only = Filter(query.dtype, query.regime)
    is_past = query.as_of is not None
    with database.reading() as session:
        device = the_device(session, name)
        names = named(session, device)
        ref = evaluation_for(session, device.id, span, explicit=is_past)
        values, gpus = ({}, {}) if ref is None else _values(session, ref, span, query, only)
    return DeviceWorkloads(
        device=names,
        as_of=span.as_of,
        **evaluated_by(ref, device=device.slug, asked=query.as_of),
        hidden_size=query.hidden_size,
        gqa_group=query.gqa_group,
        prefill_tokens=query.prefill_tokens,
        tp=query.tp,
        ridges=ridge_workloads(ridges_by_cohort(values, gpus, only), asked),
    )


def _values(
    session: Session, ref: EvaluationRef, span: Span, query: WorkloadsQuery, only: Filter
) -> tuple[CohortValues, Mapping[int, str]]:
    """What the gpus count for in the roofs that are placed on, by their places in the order, and their ids."""
    columns = columns_of(session, ref, cohorts_under(ref.body, only))
    if columns is None:
        return {}, {}
    where, is_past = Where(None if span.simulated else query.cluster), query.as_of is not None
    gpus = judged_places(session, ref, order_of(session, ref), where, is_past=is_past, with_quarantined=True)
    return cohort_values(ref.body, columns), gpus


def _shapes(query: WorkloadsQuery) -> Mapping[str, Sequence[WeightShape]]:
    """Weight shapes by model; of all models those that can be split so."""
    if query.model == ALL_MODELS:
        fitting = [model for model in SERVED_MODELS.values() if query.tp in model.allowed_tp]
        return {model.key: model.divided_by(query.tp) for model in fitting}
    try:
        return {query.model: served_model(query.model).divided_by(query.tp)}
    except ValueError as error:
        field = "query.tp" if query.model in SERVED_MODELS else "query.model"
        raise invalid_request([FieldError(field=field, problem=str(error))]) from error
