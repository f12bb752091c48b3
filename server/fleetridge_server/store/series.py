"""One gpu's reports in time: page by page with their judged roofs, and all of them by their settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Conditions, is_judged
from fleetridge_server.store.counting import counts, is_undisputed
from fleetridge_server.store.models import Report, Roof
from fleetridge_server.store.roof_columns import CONDITION_COLUMNS, ROOF_COLUMNS
from fleetridge_server.store.summaries import NamedReport, named_reports
from fleetridge_server.store.upserts import in_chunks
from fleetridge_server.verdict.drift import Epoch
from fleetridge_server.verdict.evidence import Factors

# Three years of daily sweeps.
MOST_RUNS = 1000


@dataclass(frozen=True, slots=True)
class Setting:
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
    chosen = [Report.gpu_id == gpu_row, Report.ordered_at <= as_of, counts(Report)]
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


def settings(session: Session, gpu_row: int, *, as_of: datetime) -> Sequence[Setting]:
    """Settings of a gpu's newest measured reports, oldest first."""
    columns = [getattr(Report, name) for name in (*Factors._fields, *CONDITION_COLUMNS)]
    query = (
        select(
            Report.id,
            Report.ordered_at,
            and_(Report.contended.is_not(True), is_undisputed(Report, as_of)).label("is_valid"),
            *columns,
        )
        .where(Report.gpu_id == gpu_row, Report.outcome == "measured", Report.ordered_at <= as_of, counts(Report))
        .order_by(Report.ordered_at.desc(), Report.id.desc())
        .limit(MOST_RUNS)
    )
    found = [
        Setting(
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
