"""What a driver, a setting or a place does to a device's gpus."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, Field
from sqlalchemy.orm import Session

from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED, Cohort, Span
from fleetridge_server.engine.evidence import FactorName
from fleetridge_server.engine.ridge import Filter
from fleetridge_server.engine.upgrades import grouped_cohorts
from fleetridge_server.evaluation.judgement import evaluation_for
from fleetridge_server.fleet.locations import (
    GpuLocation,
    Where,
    labels_of_locations,
    locations_of_device,
)
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
from fleetridge_server.responses.comparison import Comparison, roof_comparisons
from fleetridge_server.responses.verdict import cohort_values, evaluated_by, judged_cohorts
from fleetridge_server.text import workloads as workloads_text
from fleetridge_server.verdicts.stored import EvaluationRef, columns_of, order_of

router = APIRouter(tags=["devices"])

FACTORS: tuple[str, ...] = get_args(FactorName)
_CLUSTER = "cluster"
_LABEL = "label:"
_LONGEST_BY = 300


def _known(by: str) -> str:
    if by in (*FACTORS, _CLUSTER) or (by.startswith(_LABEL) and by != _LABEL):
        return by
    raise ValueError(f"choose one of {', '.join((*FACTORS, _CLUSTER))}, or label: and the name of a node's label")


class ComparisonQuery(MomentQuery):
    """Parameters of a comparison."""

    by: Annotated[
        str,
        AfterValidator(_known),
        Field(
            max_length=_LONGEST_BY,
            description=f"`{'`, `'.join((*FACTORS, _CLUSTER))}`, or `label:NAME` for a label of the nodes.",
            json_schema_extra={"pattern": f"^({'|'.join((*FACTORS, _CLUSTER))}|{_LABEL}.+)$"},
        ),
    ]
    cluster: ClusterFilter = None
    dtype: DtypeFilter = None
    regime: RegimeFilter = None


@router.get("/devices/{name:path}/compare", response_model=Comparison, responses=documented({404: NO_DEVICE}))
def get_device_comparison(
    request: Request, database: OpenDatabase, name: str, query: Annotated[ComparisonQuery, Query()]
) -> Response:
    """
    What a driver, a library, a setting or a place does to a device's gpus.

    Where gpus met a change themselves each is compared with itself (`paired`); the groups of now stand beside it, and
    alone where nobody met a change: other gpus on other nodes, so that those differ too.
    """
    return answered(request, read_comparison(database, name, query), workloads_text.comparison)


def read_comparison(database: Database, name: str, query: ComparisonQuery) -> Comparison:
    """The answer. Raises ProblemError: 404, there is no such device."""
    span = Span(moment(query.as_of), simulated=query.cluster == SIMULATED)
    only = Filter(query.dtype, query.regime)
    with database.reading() as session:
        device = the_device(session, name)
        names = named(session, device)
        ref = evaluation_for(session, device.id, span, explicit=query.as_of is not None)
        values = [] if ref is None else list(_leveled(session, ref, span, query, only))
    upgrades = [] if ref is None else [own for own in ref.body.upgrades if own.factor == query.by]
    return Comparison(
        device=names,
        as_of=span.as_of,
        by=query.by,
        **evaluated_by(ref, device=device.slug, asked=query.as_of),
        roofs=roof_comparisons(grouped_cohorts(values), upgrades),
    )


def _leveled(
    session: Session, ref: EvaluationRef, span: Span, query: ComparisonQuery, only: Filter
) -> Iterator[tuple[Cohort, float, str]]:
    """Judged values of the gpus that are there, each with its cohort and level."""
    order, is_past = order_of(session, ref), query.as_of is not None
    where = Where(None if span.simulated else query.cluster)
    wanted = [own for own in judged_cohorts(ref.body) if only.takes_roof(ref.body.cohorts[own].roof)]
    places = judged_places(session, ref, order, where, is_past=is_past, with_quarantined=True)
    if query.by in FACTORS:
        levels = {place: order.level(query.by, place) for place in places}
    else:
        of_gpu = _levels(
            session, query.by, locations_of_device(session, ref.device_id, span, where, by_verdict=ref.is_current)
        )
        levels = {place: of_gpu[gpu_id] for place, gpu_id in places.items() if gpu_id in of_gpu}
    for cohort, values in cohort_values(ref.body, columns_of(session, ref, wanted) or {}).items():
        for place, value in values.items():
            if place in levels:
                yield cohort, value, levels[place]


def _levels(session: Session, by: str, places: Sequence[GpuLocation]) -> Mapping[str, str]:
    """Level of each gpu by where it is."""
    if by == _CLUSTER:
        return {place.gpu_id: place.cluster for place in places}
    return labels_of_locations(session, places, by.removeprefix(_LABEL))
