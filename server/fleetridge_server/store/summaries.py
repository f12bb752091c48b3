"""Newest reports about a gpu or a node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from fleetridge_server.compare.location import GpuLocation
from fleetridge_server.store.counting import counts
from fleetridge_server.store.models import Gpu, Node, Report


@dataclass(frozen=True, slots=True)
class NamedReport:
    """A report with the name of its node, None where an import never said."""

    report: Report
    node: str | None


def reports_of_gpu(session: Session, gpu_row: int, *, as_of: datetime, limit: int) -> list[NamedReport]:
    """Newest reports of a gpu by ordering time; those without a time come last."""
    return _newest(session, Report.gpu_id == gpu_row, as_of, limit)


class JudgedUntil(NamedTuple):
    """What an evaluation knows: reports that were measured by a time, of those that had arrived by another."""

    measured: datetime
    received: datetime


def newest_unjudged(
    session: Session, locations: Iterable[GpuLocation], known: JudgedUntil | None, as_of: datetime
) -> dict[int, NamedReport]:
    """
    The newest report of each gpu that an evaluation does not know, by the gpu's row.

    Args:
        session: to read in.
        locations: of the gpus.
        known: to the evaluation; None where there was none.
        as_of: what was measured later is left out.
    """
    waiting = [
        own.row
        for own in locations
        if own.received_at is not None and (own.is_due or known is None or own.received_at > min(known))
    ]
    if not waiting:
        return {}
    new = [Report.gpu_id.in_(waiting), Report.ordered_at <= as_of, counts(Report)]
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
    chosen = about & counts(Report) & or_(Report.ordered_at <= as_of, Report.ordered_at.is_(None))
    order = (Report.ordered_at.desc().nulls_last(), Report.measured_to.desc(), Report.id.desc())
    return named_reports(session, chosen, order, limit)
