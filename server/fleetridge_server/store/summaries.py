"""Reports in a line each, newest first."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from fleetridge_server.schemas import ReportSummary
from fleetridge_server.store.models import Gpu, Node, Report


def reports_of_gpu(session: Session, gpu_id: str, *, as_of: datetime, limit: int) -> list[ReportSummary]:
    """Newest reports of a gpu by ordering time; those without a time come last."""
    return _newest(session, Report.gpu_id == gpu_id, as_of, limit)


def reports_of_node(session: Session, node_id: int, *, as_of: datetime, limit: int) -> list[ReportSummary]:
    """Newest reports about a node as a whole, as `reports_of_gpu`."""
    return _newest(session, Report.gpu_id.is_(None) & (Report.node_id == node_id), as_of, limit)


def known_gpu_ids(session: Session, gpu_ids: Collection[str]) -> set[str]:
    """Which of some gpus ever reported."""
    return set(session.scalars(select(Gpu.id).where(Gpu.id.in_(gpu_ids))))


def _newest(session: Session, about: ColumnElement[bool], as_of: datetime, limit: int) -> list[ReportSummary]:
    query = (
        select(Report, Node.name)
        .outerjoin(Node, Node.id == Report.node_id)
        .where(about, or_(Report.ordered_at <= as_of, Report.ordered_at.is_(None)))
        .order_by(Report.ordered_at.desc().nulls_last(), Report.id.desc())
        .limit(limit)
    )
    return [_summary(report, node) for report, node in session.execute(query)]


def _summary(report: Report, node: str | None) -> ReportSummary:
    return ReportSummary(
        report_id=report.id,
        ordered_at=report.ordered_at,
        measured_from=report.measured_from,
        measured_to=report.measured_to,
        received_at=report.received_at,
        run_kind=report.run_kind,
        outcome=report.outcome,
        reason=report.reason,
        detail=report.detail,
        cluster=report.cluster,
        node=node,
        driver=report.driver,
        contended=report.contended,
        clock_ahead=report.clock_ahead,
    )
