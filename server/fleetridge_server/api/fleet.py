"""The one answer about the whole fleet."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from fleetridge.report.field_types import UtcTime
from fleetridge_server.api.devices import counted_devices
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED, Span
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.fleet.changes import MeasuredShare, alert_changes, measured_now, measured_share, verdict_steps
from fleetridge_server.fleet.find import is_storable, names_of_devices
from fleetridge_server.fleet.locations import DeviceCount
from fleetridge_server.fleet.members import differing_gpus, verdict_counts
from fleetridge_server.fleet.nodes import FleetNode, nodes_with_gpus_in
from fleetridge_server.http.answers import answered, documented
from fleetridge_server.http.parameters import ClusterFilter, MomentQuery, OpenDatabase, moment
from fleetridge_server.responses import fleet as fleet_answers
from fleetridge_server.responses.alert import alert_shown
from fleetridge_server.responses.fleet import Changes, DeviceVerdicts, FleetAnswer
from fleetridge_server.text import fleet as fleet_text
from fleetridge_server.verdicts.stored import EvaluationRef

router = APIRouter(tags=["fleet"])

_A_DAY = timedelta(days=1)
_COVERAGE_DAYS = 7
_MOST_UNMEASURED = 10
_MOST_ALERTS = 20


class FleetQuery(MomentQuery):
    """Parameters of the fleet."""

    cluster: ClusterFilter = None
    since: Annotated[UtcTime | None, Field(description="What changed from then on; a day by default.")] = None
    days: Annotated[int, Field(ge=1, le=365, description="Coverage over so many days.")] = _COVERAGE_DAYS


@router.get("/fleet", response_model=FleetAnswer, responses=documented())
def get_fleet(request: Request, database: OpenDatabase, query: Annotated[FleetQuery, Query()]) -> Response:
    """
    Whether the fleet is good, in one sentence, and what is behind it.

    Gpus by verdict, how much of the fleet was measured lately, the worst nodes, what changed, and what synchronous jobs
    lose to their slowest gpu.
    """
    return answered(request, read_fleet(database, query), fleet_text.fleet)


def read_fleet(database: Database, query: FleetQuery) -> FleetAnswer:
    """The fleet as of a time: counts, coverage, worst nodes, changes, stragglers."""
    span = Span(moment(query.as_of), simulated=query.cluster == SIMULATED)
    cluster = None if query.cluster == SIMULATED else query.cluster
    is_past = query.as_of is not None
    since = span.as_of - _A_DAY if query.since is None else query.since
    if cluster is not None and not is_storable(cluster):
        cluster = ""  # which no cluster is called
    with database.reading() as session:
        counts, evaluations = counted_devices(session, span, cluster, asked=is_past)
        found = {count.device.id: evaluations[count.device.id] for count in counts if count.device.id in evaluations}
        devices = tuple(
            _device(session, count, found.get(count.device.id), cluster, is_past=is_past) for count in counts
        )
        gpus = sum(count.gpus for count in counts)
        measured = _measured(session, span, cluster, query, gpus)
        differing = {
            device_id: differing_gpus(session, ref, cluster, is_past=is_past) for device_id, ref in found.items()
        }
        nodes = _troubled(session, found, differing, cluster, is_past=is_past)
        changes = _changes(session, found, span, cluster, since)
    verdicts = fleet_answers.total(devices)
    coverage = fleet_answers.coverage(measured, query.days)
    bodies = [ref.body for ref in found.values()]
    absences = [own for body in bodies for own in body.absences if cluster in (None, own.cluster)]
    never_reported = len({(own.cluster, own.node) for own in absences if own.never_reported})
    slow_nodes = fleet_answers.slow_places([place for body in bodies for place in body.slow_nodes], cluster)
    slow_racks = fleet_answers.slow_places([place for body in bodies for place in body.slow_racks], cluster)
    needed = fleet_answers.action_needed([own for body in bodies for own in body.health], cluster)
    return FleetAnswer(
        as_of=span.as_of,
        sentence=fleet_answers.sentence(
            verdicts,
            coverage,
            devices,
            never_reported,
            fleet_answers.together(nodes, slow_nodes, slow_racks),
            differing=sum(map(len, differing.values())),
            needed=needed,
        ),
        gpus=gpus,
        verdicts=verdicts,
        differing=sum(map(len, differing.values())),
        devices=devices,
        coverage=coverage,
        nodes_never_reported=never_reported,
        unnamed=sum(own.unnamed for own in absences),
        worst_nodes=fleet_answers.worst_nodes(nodes),
        slow_nodes=slow_nodes,
        slow_racks=slow_racks,
        changes=changes,
        stragglers=fleet_answers.costliest_jobs([cost for body in bodies for cost in body.stragglers], cluster),
        action_needed=needed,
    )


def _device(
    session: Session, count: DeviceCount, ref: EvaluationRef | None, cluster: str | None, *, is_past: bool
) -> DeviceVerdicts:
    return DeviceVerdicts(
        name=count.device.name,
        slug=count.device.slug,
        gpus=count.gpus,
        verdicts=verdict_counts(session, ref, cluster, is_past=is_past),
        noted=() if ref is None else tuple(sorted({notice.kind for notice in ref.body.notices})),
        evaluated_as_of=None if ref is None else ref.as_of,
    )


def _troubled(
    session: Session,
    found: Mapping[int, EvaluationRef],
    differing: Mapping[int, Collection[str]],
    cluster: str | None,
    *,
    is_past: bool,
) -> list[FleetNode]:
    """Nodes with gpus that need a look, and those gpus alone."""
    nodes: dict[NodeName, FleetNode] = {}
    troubled = fleet_answers.TROUBLED
    for device_id, ref in found.items():
        for node in nodes_with_gpus_in(session, ref, troubled, is_past=is_past, others=differing[device_id]):
            if cluster in (None, node.name.cluster):
                nodes.setdefault(node.name, FleetNode(node.name, None)).gpus.extend(node.gpus)
    return list(nodes.values())


def _measured(session: Session, span: Span, cluster: str | None, query: FleetQuery, gpus: int) -> MeasuredShare:
    since = span.as_of - timedelta(days=query.days)
    if query.as_of is not None:
        return measured_share(session, span, cluster, since, _MOST_UNMEASURED)
    return measured_now(session, gpus, cluster, since, _MOST_UNMEASURED, simulated=span.simulated)


def _changes(
    session: Session, evaluations: Mapping[int, EvaluationRef], span: Span, cluster: str | None, since: datetime
) -> Changes:
    alerts = alert_changes(session, span, cluster, since, _MOST_ALERTS)
    devices = names_of_devices(session, {alert.device_id for alert in alerts.newest})
    return Changes(
        since=since,
        opened=alerts.opened,
        resolved=alerts.resolved,
        still_open=alerts.still_open,
        alerts=tuple(alert_shown(alert, devices[alert.device_id]) for alert in alerts.newest),
        verdicts=fleet_answers.steps_shown(verdict_steps(session, evaluations, span, cluster, since)),
    )
