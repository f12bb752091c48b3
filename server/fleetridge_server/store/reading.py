"""
Readings of a device's gpus, as the comparison takes them.

One query whatever the number of gpus, and bounded whatever the length of their history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import CTE, ColumnElement, ScalarSelect, SQLColumnExpression, and_, func, select
from sqlalchemy.orm import Session, aliased

from fleetridge.report import RoofKey
from fleetridge_server.cohort import NEWEST_REPORTS, Cohort, Conditions, Reading
from fleetridge_server.store.models import Report, Roof

# Made-up gpus of the simulator never share a cohort, a count or a list with real ones.
SIMULATED = "simulated"

# How far back a gpu's newest readings of a roof are looked for: a month of daily sweeps. Kinds of run count apart, as
# hourly checks would hide the weekly sweep that alone measures some roofs.
DEPTH_REPORTS = 30

_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)

_ROOF_KEY = (Roof.kind, Roof.dtype, Roof.out_dtype, Roof.fast_accumulation, Roof.regime, Roof.level, Roof.kernel)
_CONDITIONS = (
    Report.memory_bytes,
    Report.sm_count,
    Report.mig_profile,
    Report.partition,
    Report.fill,
    Report.method,
    Report.protocol_version,
)
_FIGURES = (
    Report.measured_to,
    Roof.value,
    Roof.sm_clock_mhz,
    Roof.power_w,
    Report.temperature_c,
    Roof.converged,
    Report.clock_ahead,
)


@dataclass(frozen=True, slots=True)
class Span:
    """
    What an answer is about.

    Attributes:
        as_of: nothing later than this counts.
        since: nothing measured earlier counts; None is no limit.
        simulated: made-up gpus instead of real ones.
    """

    as_of: datetime
    since: datetime | None = None
    simulated: bool = False


def readings(session: Session, device_ids: Sequence[int], span: Span) -> dict[int, list[Reading]]:
    """
    Newest valid readings of each gpu in each roof and method, by device.

    Valid: measured, not contended, with a time. At most NEWEST_REPORTS reports of a gpu count in one roof, out of its
    newest DEPTH_REPORTS of each kind of run.
    """
    newest = _newest(_recent_reports(device_ids, span))
    query = (
        select(Roof.device_id, Roof.gpu_id, Report.id, Report.ordered_at, *_FIGURES, *_ROOF_KEY, *_CONDITIONS)
        .select_from(newest)
        .join(Roof, and_(Roof.report_id == newest.c.report_id, Roof.position == newest.c.position))
        .join(Report, Report.id == newest.c.report_id)
        .where(newest.c.place <= NEWEST_REPORTS)
    )
    by_device: dict[int, list[Reading]] = {device_id: [] for device_id in device_ids}
    for device_id, *reading in session.execute(query):
        by_device[device_id].append(_reading(reading))
    return by_device


def in_population(cluster: SQLColumnExpression[str], *, simulated: bool) -> ColumnElement[bool]:
    """Condition that keeps made-up and real gpus apart."""
    return and_(cluster == SIMULATED if simulated else cluster != SIMULATED)


def _recent_reports(device_ids: Sequence[int], span: Span) -> CTE:
    """
    Valid reports from the newest DEPTH_REPORTS of each gpu and kind of run.

    The bound is looked up in the index for each report: joined as a table of its own, SQLite reads all of it anew for
    every report.
    """
    report = aliased(Report)
    return (
        select(report.id, report.gpu_id, report.method, report.ordered_at)
        .where(
            report.device_id.in_(device_ids),
            *_valid(report, span),
            report.ordered_at >= func.coalesce(_oldest_looked_at(report, span), _BEGINNING),
        )
        .cte("recent_reports")
    )


def _oldest_looked_at(report: type[Report], span: Span) -> ScalarSelect[datetime | None]:
    """Time of the oldest report that is looked at, for the gpu and kind of run of another report."""
    peer = aliased(Report)
    return (
        select(peer.ordered_at)
        .where(
            peer.gpu_id == report.gpu_id,
            peer.run_kind == report.run_kind,
            peer.device_id == report.device_id,
            *_valid(peer, span),
        )
        .order_by(peer.ordered_at.desc())
        .limit(1)
        .offset(DEPTH_REPORTS - 1)
        .correlate(report)
        .scalar_subquery()
    )


def _newest(recent: CTE) -> CTE:
    """Roofs of those reports with the place of their report among the gpu's in that roof and method, newest first."""
    place = func.dense_rank().over(
        partition_by=(recent.c.gpu_id, recent.c.method, *_ROOF_KEY),
        # The id decides between reports of one time, so that the order of arrival never does.
        order_by=(recent.c.ordered_at.desc(), recent.c.id.desc()),
    )
    return (
        select(Roof.report_id, Roof.position, place.label("place"))
        .select_from(recent)
        .join(Roof, Roof.report_id == recent.c.id)
        .cte("newest")
    )


def _valid(report: type[Report], span: Span) -> tuple[ColumnElement[bool], ...]:
    return (
        report.ordered_at <= span.as_of,
        *(() if span.since is None else (report.ordered_at >= span.since,)),
        report.outcome == "measured",
        report.contended.is_not(True),
        in_population(report.cluster, simulated=span.simulated),
    )


def _reading(row: Sequence[Any]) -> Reading:
    gpu_id, report_id, ordered_at, measured_to, *figures = row[: 3 + len(_FIGURES)]
    key_end = 3 + len(_FIGURES) + len(_ROOF_KEY)
    roof, conditions = RoofKey(*row[3 + len(_FIGURES) : key_end]), Conditions(*row[key_end:])
    return Reading(gpu_id, report_id, Cohort(roof, conditions), ordered_at, measured_to, *figures)
