"""Reports of one gpu or node: newest, and series of roofs and settings."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, bindparam, or_, select
from sqlalchemy.orm import Session

from fleetridge.report import RoofKey
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Gpu, Node, Report, Roof, is_trusted, is_undisputed
from fleetridge_server.engine.cohort import Cohort, Conditions, Reading, is_judged
from fleetridge_server.engine.drift import Epoch
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.fleet.locations import GpuLocation
from fleetridge_server.verdicts.series import JudgedUntil

ROOF_COLUMNS = RoofKey._fields
CONDITION_COLUMNS = tuple(Conditions.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class NamedReport:
    """A report with the name of its node, None where an import never said."""

    report: Report
    node: str | None


def reports_of_gpu(session: Session, gpu_row: int, *, as_of: datetime, limit: int) -> list[NamedReport]:
    """Newest reports of a gpu by ordering time; those without a time come last."""
    return _newest(session, Report.gpu_id == gpu_row, as_of, limit)


def newest_unjudged(
    session: Session, locations: Iterable[GpuLocation], known: JudgedUntil | None, as_of: datetime
) -> dict[int, NamedReport]:
    """The newest report of each gpu up to `as_of` that no evaluation (`known`) knows, by the gpu's row."""
    waiting = [
        own.row
        for own in locations
        if own.received_at is not None and (own.is_due or known is None or own.received_at > min(known))
    ]
    if not waiting:
        return {}
    new = [Report.gpu_id.in_(waiting), Report.ordered_at <= as_of, is_trusted(Report)]
    if known is None:
        new.append(Report.id.in_(select(Gpu.last_report_id).where(Gpu.id.in_(waiting))))
    else:
        new.append(or_(Report.received_at > known.received, Report.ordered_at > known.measured))
    order = (Report.ordered_at, Report.measured_to, Report.id)
    query = select(Report, Node.name).outerjoin(Node, Node.id == Report.node_id).where(*new).order_by(*order)
    # The last of each gpu stays.
    return {report.gpu_id: NamedReport(report, node) for report, node in session.execute(query) if report.gpu_id}


def reports_of_node(session: Session, node_id: int, *, as_of: datetime, limit: int) -> list[NamedReport]:
    """Newest reports about a node as a whole, as `reports_of_gpu`."""
    return _newest(session, Report.gpu_id.is_(None) & (Report.node_id == node_id), as_of, limit)


def known_identities(session: Session, identities: Collection[str], *, simulated: bool) -> set[str]:
    """Which of some gpus ever reported."""
    known = select(Gpu.identity).where(Gpu.identity.in_(identities), Gpu.simulated.is_(simulated), ~Gpu.quarantined)
    return set(session.scalars(known))


def named_reports(
    session: Session, chosen: ColumnElement[bool], order: Sequence[ColumnElement[Any]], limit: int
) -> list[NamedReport]:
    """Some reports with the names of their nodes."""
    query = select(Report, Node.name).outerjoin(Node, Node.id == Report.node_id).where(chosen)
    found = session.execute(query.order_by(*order).limit(limit))
    return [NamedReport(report, node) for report, node in found]


def _newest(session: Session, about: ColumnElement[bool], as_of: datetime, limit: int) -> list[NamedReport]:
    chosen = about & is_trusted(Report) & or_(Report.ordered_at <= as_of, Report.ordered_at.is_(None))
    order = (Report.ordered_at.desc().nulls_last(), Report.measured_to.desc(), Report.id.desc())
    return named_reports(session, chosen, order, limit)


_IDS = "ids"


@dataclass(frozen=True, slots=True)
class ReportReadings:
    """What one report says of its roofs, and under which conditions; of a roof that it states twice, the first."""

    conditions: Conditions
    readings: Mapping[RoofKey, Reading] = field(default_factory=dict)

    def cohort(self, roof: RoofKey) -> Cohort:
        """Cohort of one of its roofs."""
        return Cohort(roof, self.conditions)


def readings_of(session: Session, report_ids: Collection[UUID]) -> dict[UUID, ReportReadings]:
    """Readings of some reports, by their ids."""
    found: dict[UUID, ReportReadings] = {}
    roofs: dict[UUID, dict[RoofKey, Reading]] = {}
    connection = session.connection()
    for chunk in in_chunks(sorted(report_ids)):
        reports = {}
        for report_id, ordered_at, measured_to, temperature_c, clock_ahead, *own in connection.execute(
            _reports(), {_IDS: chunk}
        ):
            reports[report_id] = ordered_at, measured_to, temperature_c, clock_ahead
            roofs[report_id] = {}
            found[report_id] = ReportReadings(Conditions(*own), roofs[report_id])
        for report_id, value, sm_clock_mhz, power_w, converged, *key in connection.execute(_roofs(), {_IDS: chunk}):
            ordered_at, measured_to, temperature_c, clock_ahead = reports[report_id]
            roofs[report_id].setdefault(
                RoofKey(*key),
                Reading(
                    report_id=report_id,
                    ordered_at=ordered_at,
                    value=value,
                    measured_to=measured_to,
                    sm_clock_mhz=sm_clock_mhz,
                    power_w=power_w,
                    temperature_c=temperature_c,
                    converged=converged,
                    clock_ahead=clock_ahead,
                ),
            )
    return found


def _reports() -> Select[Any]:
    own = (Report.id, Report.ordered_at, Report.measured_to, Report.temperature_c, Report.clock_ahead)
    conditions = (getattr(Report, name) for name in CONDITION_COLUMNS)
    return select(*own, *conditions).where(Report.id.in_(bindparam(_IDS, expanding=True)))


def _roofs() -> Select[Any]:
    own = (Roof.report_id, Roof.value, Roof.sm_clock_mhz, Roof.power_w, Roof.converged)
    key = (getattr(Roof, name) for name in ROOF_COLUMNS)
    wanted = Roof.report_id.in_(bindparam(_IDS, expanding=True))
    return select(*own, *key).where(wanted).order_by(Roof.report_id, Roof.position)


# Three years of daily sweeps.
MOST_RUNS = 1000


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """What a measured report says of how it was measured."""

    report_id: UUID
    ordered_at: datetime
    epoch: Epoch
    is_valid: bool


@dataclass(frozen=True, slots=True)
class Before:
    """Place in a gpu's reports, newest first."""

    ordered_at: datetime
    report_id: UUID


def reports_before(
    session: Session, gpu_row: int, *, as_of: datetime, before: Before | None, limit: int
) -> list[NamedReport]:
    """Reports of a gpu that have a time, newest first."""
    chosen = [Report.gpu_id == gpu_row, Report.ordered_at <= as_of, is_trusted(Report)]
    if before is not None:
        earlier = Report.ordered_at < before.ordered_at
        chosen.append(or_(earlier, and_(Report.ordered_at == before.ordered_at, Report.id < before.report_id)))
    return named_reports(session, and_(*chosen), (Report.ordered_at.desc(), Report.id.desc()), limit)


def judged_roofs(session: Session, report_ids: Collection[UUID]) -> dict[UUID, dict[RoofKey, Roof]]:
    """Judged roofs of some reports; of one that a report states twice, the first."""
    found: dict[UUID, dict[RoofKey, Roof]] = defaultdict(dict)
    for chunk in in_chunks(sorted(report_ids)):
        for roof in session.scalars(select(Roof).where(Roof.report_id.in_(chunk)).order_by(Roof.position)):
            key = RoofKey(*(getattr(roof, name) for name in ROOF_COLUMNS))
            if is_judged(key):
                found[roof.report_id].setdefault(key, roof)
    return found


def settings(session: Session, gpu_row: int, *, as_of: datetime) -> Sequence[ReportSettings]:
    """Settings of a gpu's newest measured reports, oldest first."""
    columns = [getattr(Report, name) for name in (*Factors._fields, *CONDITION_COLUMNS)]
    query = (
        select(
            Report.id,
            Report.ordered_at,
            and_(Report.contended.is_not(True), is_undisputed(Report, as_of)).label("is_valid"),
            *columns,
        )
        .where(Report.gpu_id == gpu_row, Report.outcome == "measured", Report.ordered_at <= as_of, is_trusted(Report))
        .order_by(Report.ordered_at.desc(), Report.id.desc())
        .limit(MOST_RUNS)
    )
    found = [
        ReportSettings(
            row.id,
            row.ordered_at,
            Epoch(
                Factors(*(getattr(row, name) for name in Factors._fields)),
                Conditions(**{name: getattr(row, name) for name in CONDITION_COLUMNS}),
            ),
            is_valid=bool(row.is_valid),
        )
        for row in session.execute(query)
    ]
    return found[::-1]
