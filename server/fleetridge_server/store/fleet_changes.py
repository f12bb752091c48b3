"""What became different in a fleet: alerts opened and resolved, and verdicts by their steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import Span
from fleetridge_server.evaluation.read import EvaluationRef, verdict_counts
from fleetridge_server.store.models import Device, Gpu
from fleetridge_server.store.upserts import in_chunks
from fleetridge_server.store.verdict_models import Alert, VerdictChange
from fleetridge_server.verdict.state import State

_Step = tuple[State | None, State | None]


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
    is_open = and_(Alert.opened_at <= span.as_of, or_(Alert.resolved_at.is_(None), Alert.resolved_at > span.as_of))
    counts = select(
        func.count().filter(opened), func.count().filter(resolved), func.count().filter(is_open)
    ).select_from(Alert)
    newest = select(Alert).where(*own, or_(opened, resolved)).order_by(Alert.id.desc()).limit(most)
    return AlertChanges(*session.execute(counts.where(*own)).one(), session.scalars(newest).all())


def verdict_steps(
    session: Session, evaluations: Mapping[int, EvaluationRef], span: Span, cluster: str | None, since: datetime
) -> Counter[_Step]:
    """
    How many gpus went from which state to which between `since` and `span.as_of`, those that came back left out.

    Args:
        session: to read in.
        evaluations: as of then, by device. Of a device that nobody had evaluated by `since` every gpu is new, so
            that there is nothing to look up.
        span: the end, and the population.
        cluster: only gpus that are there now.
        since: the beginning.
    """
    row = VerdictChange
    own: list[ColumnElement[bool]] = [row.simulated.is_(span.simulated), row.historical.is_(False)]
    before_then = select(row.id).where(*own, row.device_id == Device.id, row.as_of <= since).exists()
    known = set(session.scalars(select(Device.id).where(Device.id.in_(evaluations), before_then)))
    steps: Counter[_Step] = Counter()
    for device_id in evaluations.keys() - known:
        counts = verdict_counts(session, evaluations[device_id], cluster)
        steps.update({(None, state): gpus for state, gpus in counts.items()})
    return steps + _steps_of(session, [*own, row.device_id.in_(known)], span, cluster, since)


def _steps_of(
    session: Session, own: Sequence[ColumnElement[bool]], span: Span, cluster: str | None, since: datetime
) -> Counter[_Step]:
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
