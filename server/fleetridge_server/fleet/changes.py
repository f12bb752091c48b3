"""How much of the fleet was measured, and what changed since."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Subquery, and_, func, or_, select
from sqlalchemy.orm import Session

from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Device, Gpu, Node, Report, is_trusted, is_undisputed
from fleetridge_server.db.verdict_tables import Alert, VerdictChange
from fleetridge_server.engine.cohort import Span
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.fleet.members import verdict_counts
from fleetridge_server.verdicts.alert_causes import SILENCED
from fleetridge_server.verdicts.stored import EvaluationRef


@dataclass(frozen=True, slots=True)
class LongUnmeasured:
    """A gpu that was not measured for long; `measured_at` is null where it never was."""

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
    longest: tuple[LongUnmeasured, ...]


def measured_share(session: Session, span: Span, cluster: str | None, since: datetime, most: int) -> MeasuredShare:
    """
    Share of the gpus of a span that have a valid report since a time.

    Args:
        session: to read in.
        span: whose gpus; what is newer than its `as_of` does not count.
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
    return MeasuredShare(gpus, measured, tuple(LongUnmeasured(*row) for row in session.execute(query)))


def measured_now(
    session: Session, gpus: int, cluster: str | None, since: datetime, most: int, *, simulated: bool
) -> MeasuredShare:
    """The same for now, from when each gpu was measured last."""
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
    return MeasuredShare(gpus, max(0, gpus - unmeasured), tuple(LongUnmeasured(*row) for row in longest))


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
        is_trusted(Report),
        is_undisputed(Report, span.as_of),
    )
    return kept.union_all(from_reports.group_by(Report.gpu_id)).subquery()


_StateChange = tuple[State | None, State | None]


@dataclass(frozen=True, slots=True)
class AlertChanges:
    """Alerts opened and resolved in a time, how many are open at its end, and the newest of those that changed."""

    opened: int
    resolved: int
    still_open: int
    newest: Sequence[Alert]


def alert_changes(session: Session, span: Span, cluster: str | None, since: datetime, most: int) -> AlertChanges:
    """Alerts between `since` and `span.as_of`."""
    own: list[ColumnElement[bool]] = [Alert.simulated.is_(span.simulated)]
    if cluster is not None:
        own.append(Alert.cluster == cluster)
    opened = Alert.opened_at.between(since, span.as_of)
    resolved = Alert.resolved_at.between(since, span.as_of)
    # What is silenced now stays out of it; when it was silenced is not kept.
    is_loud = or_(Alert.resolved_at.is_not(None), Alert.state != SILENCED)
    unresolved = or_(Alert.resolved_at.is_(None), Alert.resolved_at > span.as_of)
    is_open = and_(Alert.opened_at <= span.as_of, unresolved, is_loud)
    counts = select(
        func.count().filter(opened), func.count().filter(resolved), func.count().filter(is_open)
    ).select_from(Alert)
    newest = select(Alert).where(*own, or_(opened, resolved)).order_by(Alert.id.desc()).limit(most)
    return AlertChanges(*session.execute(counts.where(*own)).one(), session.scalars(newest).all())


def verdict_steps(
    session: Session, evaluations: Mapping[int, EvaluationRef], span: Span, cluster: str | None, since: datetime
) -> Counter[_StateChange]:
    """
    How many gpus (now in a cluster) went from which state to which between `since` and `span.as_of`.

    Args:
        session: to read in.
        evaluations: as of then, by device. Of a device that nobody had evaluated by `since` every gpu is new, so
            that there is nothing to look up.
        span: the end, and whose gpus.
        cluster: only gpus that are there now.
        since: the beginning.
    """
    row = VerdictChange
    own: list[ColumnElement[bool]] = [row.simulated.is_(span.simulated), row.historical.is_(False)]
    before_then = select(row.id).where(*own, row.device_id == Device.id, row.as_of <= since).exists()
    known = set(session.scalars(select(Device.id).where(Device.id.in_(evaluations), before_then)))
    steps: Counter[_StateChange] = Counter()
    for device_id in evaluations.keys() - known:
        counts = verdict_counts(session, evaluations[device_id], cluster, is_past=True)
        steps.update({(None, state): gpus for state, gpus in counts.items()})
    return steps + _steps_of(session, [*own, row.device_id.in_(known)], span, cluster, since)


def _steps_of(
    session: Session, own: Sequence[ColumnElement[bool]], span: Span, cluster: str | None, since: datetime
) -> Counter[_StateChange]:
    """The same for the devices of some rows of changes."""
    row = VerdictChange
    changed = [*own, row.as_of > since, row.as_of <= span.as_of]
    if cluster is not None:
        there = select(Gpu.identity).where(Gpu.cluster == cluster, Gpu.simulated.is_(span.simulated))
        changed.append(row.identity.in_(there))
    after = _newest_states(session, changed)
    before: dict[str, State | None] = {}
    for chunk in in_chunks(sorted(after)):
        before |= _newest_states(session, [*own, row.as_of <= since, row.identity.in_(chunk)])
    steps = ((before.get(gpu_id), state) for gpu_id, state in after.items())
    return Counter(step for step in steps if step[0] != step[1])


def _newest_states(session: Session, chosen: Sequence[ColumnElement[bool]]) -> dict[str, State | None]:
    """State of each gpu in its newest of some rows."""
    row = VerdictChange
    place = func.row_number().over(partition_by=row.identity, order_by=(row.as_of.desc(), row.id.desc()))
    ranked = select(row.identity, row.state, place.label("place")).where(*chosen).subquery()
    found = session.execute(select(ranked.c.identity, ranked.c.state).where(ranked.c.place == 1))
    return {row.identity: row.state for row in found}


def changes_of_gpu(session: Session, gpu_id: str, span: Span, *, limit: int) -> Sequence[VerdictChange]:
    """Changes of one gpu's verdict up to a time, newest first; historical evaluations are left out."""
    row = VerdictChange
    own = (row.identity == gpu_id, row.simulated.is_(span.simulated), row.historical.is_(False))
    query = select(row).where(*own, row.as_of <= span.as_of).order_by(row.as_of.desc(), row.id.desc()).limit(limit)
    return session.scalars(query).all()
