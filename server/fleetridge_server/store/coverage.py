"""How much of a fleet was measured lately, and which gpus were not for longest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Subquery, func, select, update
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import Span
from fleetridge_server.store.counting import counts, is_undisputed
from fleetridge_server.store.models import Device, Gpu, Node, Report


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A gpu and when it was last measured without disturbance; None where it never was."""

    gpu_id: str
    device: str
    cluster: str
    node: str | None
    measured_at: datetime | None


@dataclass(frozen=True, slots=True)
class MeasuredShare:
    """Gpus that there are, those measured since a time, and some of the others, longest unmeasured first."""

    gpus: int
    measured: int
    longest: tuple[Unmeasured, ...]


def measured_share(session: Session, span: Span, cluster: str | None, since: datetime, most: int) -> MeasuredShare:
    """
    Share of a population that has a valid report since a time.

    Args:
        session: to read in.
        span: population; what is newer than its `as_of` does not count.
        cluster: only gpus that are there now.
        since: from when on.
        most: how many of the others to name.
    """
    last = _last_measured(span)
    there: list[ColumnElement[bool]] = [
        Gpu.simulated.is_(span.simulated),
        ~Gpu.quarantined,
        (Gpu.first_seen <= span.as_of) | Gpu.first_seen.is_(None),
    ]
    if cluster is not None:
        there.append(Gpu.cluster == cluster)
    joined = select(func.count(), func.count(last.c.at).filter(last.c.at >= since)).select_from(Gpu)
    gpus, measured = session.execute(joined.outerjoin(last, last.c.gpu_id == Gpu.id).where(*there)).one()
    query = (
        select(Gpu.identity, Device.name, Gpu.cluster, Node.name, last.c.at)
        .join(Device, Device.id == Gpu.device_id)
        .outerjoin(Node, Node.id == Gpu.node_id)
        .outerjoin(last, last.c.gpu_id == Gpu.id)
        .where(*there, (last.c.at < since) | last.c.at.is_(None))
        .order_by(last.c.at.asc().nulls_first(), Gpu.identity)
        .limit(most)
    )
    return MeasuredShare(gpus, measured, tuple(Unmeasured(*row) for row in session.execute(query)))


def measured_now(
    session: Session, gpus: int, cluster: str | None, since: datetime, most: int, *, simulated: bool
) -> MeasuredShare:
    """
    The same for now, from when each gpu was measured last.

    Args:
        session: to read in.
        gpus: that there are.
        cluster: only gpus that are there.
        since: from when on.
        most: how many of the others to name.
        simulated: made-up gpus instead of real ones.
    """
    there: list[ColumnElement[bool]] = [Gpu.simulated.is_(simulated), ~Gpu.quarantined]
    if cluster is not None:
        there.append(Gpu.cluster == cluster)
    never, long_ago = (*there, Gpu.measured_at.is_(None)), (*there, Gpu.measured_at < since)
    counts = [select(func.count()).select_from(Gpu).where(*chosen).scalar_subquery() for chosen in (never, long_ago)]
    unmeasured = sum(session.execute(select(*counts)).one())
    # One after the other, so that each is read in the order of the index.
    longest = session.execute(_named(never).order_by(Gpu.identity).limit(most)).all()
    if len(longest) < most:
        rest = _named(long_ago).order_by(Gpu.measured_at, Gpu.identity).limit(most - len(longest))
        longest = [*longest, *session.execute(rest)]
    return MeasuredShare(gpus, max(0, gpus - unmeasured), tuple(Unmeasured(*row) for row in longest))


def renew_measured_at(session: Session, gpu_rows: Collection[int]) -> None:
    """Say of some gpus anew when they were measured last, after some of their reports stopped or began to count."""
    if not gpu_rows:
        return
    newest = (
        select(func.max(Report.ordered_at))
        .where(
            Report.gpu_id == Gpu.id,
            Report.outcome == "measured",
            Report.contended.is_not(True),
            counts(Report),
            is_undisputed(Report),
        )
        .scalar_subquery()
    )
    chosen = update(Gpu).where(Gpu.id.in_(gpu_rows)).values(measured_at=newest)
    session.execute(chosen.execution_options(synchronize_session=False))


def _named(chosen: Sequence[ColumnElement[bool]]) -> Select[Any]:
    columns: list[Any] = [Gpu.identity, Device.name, Gpu.cluster, Node.name, Gpu.measured_at]
    return (
        select(*columns)
        .select_from(Gpu)
        .join(Device, Device.id == Gpu.device_id)
        .outerjoin(Node, Node.id == Gpu.node_id)
        .where(*chosen)
    )


def _last_measured(span: Span) -> Subquery:
    """When each gpu was last measured: its own row says so, except where it was measured since."""
    later = select(Gpu.id).where(Gpu.measured_at > span.as_of, Gpu.simulated.is_(span.simulated))
    kept = select(Gpu.id.label("gpu_id"), Gpu.measured_at.label("at")).where(Gpu.id.not_in(later))
    from_reports = select(Report.gpu_id, func.max(Report.ordered_at).label("at")).where(
        Report.gpu_id.in_(later),
        Report.outcome == "measured",
        Report.contended.is_not(True),
        Report.ordered_at <= span.as_of,
        counts(Report),
        is_undisputed(Report, span.as_of),
    )
    return kept.union_all(from_reports.group_by(Report.gpu_id)).subquery()
