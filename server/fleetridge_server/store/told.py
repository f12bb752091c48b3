"""
What evaluations said, as answers need it: of a device as of a time, and of its gpus.

Only stored evaluations are read. For now that is one row for each gpu; for an earlier time the newest change of each
gpu's verdict up to then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from fleetridge_server.answer.evaluation_schemas import EvaluationBody
from fleetridge_server.answer.told_schemas import VerdictInShort
from fleetridge_server.answer.verdict_schemas import GpuVerdict
from fleetridge_server.compare.span import Span
from fleetridge_server.store.models import Gpu
from fleetridge_server.store.upserts import in_chunks
from fleetridge_server.store.verdict_models import CurrentVerdict, StoredEvaluation, VerdictChange
from fleetridge_server.verdict.state import STATES, UNUSABLE, State

# An evaluation answers for the time after it until the next, which comes within the hour; after a day and a half
# without one nobody evaluated, and what was said says nothing.
ANSWERS_FOR = timedelta(hours=36)

# Ranks of the states that keep what was said before: measurements are missing or of no use.
_WITH_LAST_STATE = [STATES.index(state) for state in UNUSABLE]


@dataclass(frozen=True, slots=True)
class Told:
    """
    The evaluation of one device that answers for a time.

    Attributes:
        evaluation_id: its row; None where it was made for this answer and is not stored.
        made_at: None where it was made for this answer.
        until: the time that it answers for.
        is_current: whether the gpus' verdicts are those of now.
        aside: whether it stands beside the course of evaluations, with verdicts of its own.
        body: what it says besides its gpus.
        made: what it says of its gpus, where it was made for this answer.
    """

    evaluation_id: int | None
    device_id: int
    simulated: bool
    as_of: datetime
    made_at: datetime | None
    rule_version: int
    until: datetime
    is_current: bool
    aside: bool
    body: EvaluationBody
    made: Mapping[str, GpuVerdict] | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """
    What was said of one gpu, in a line.

    Attributes:
        since: when its state began.
        reason: code of the first reason.
        loss: largest over its judged roofs.
    """

    gpu_id: str
    state: State
    last_state: State | None
    since: datetime
    reason: str | None
    loss: float | None


class ToldVerdict(NamedTuple):
    """A verdict, and when its state began."""

    since: datetime
    verdict: GpuVerdict


def told_of_device(session: Session, device_id: int, span: Span, *, explicit: bool) -> Told | None:
    """
    The evaluation that answers for a time; None where none does.

    Args:
        session: to read in.
        device_id: of the device.
        span: time and population.
        explicit: whether the time was asked for; if not, the newest evaluation answers however old it is.
    """
    found = told_of_devices(session, [device_id], span, explicit=explicit)
    return found.get(device_id)


def told_of_devices(session: Session, device_ids: Collection[int], span: Span, *, explicit: bool) -> dict[int, Told]:
    """The evaluations that answer for a time, by device."""
    row = StoredEvaluation
    current = _newest_in_course(session, device_ids, simulated=span.simulated)
    newest: Collection[int] | Select[Any] = current.values()
    if explicit:
        period = (row.as_of <= span.as_of, row.as_of >= span.as_of - ANSWERS_FOR)
        chosen = (row.device_id.in_(device_ids), row.simulated.is_(span.simulated), *period)
        newest = _first_of_each(row.device_id, row.id, chosen, (row.as_of.desc(), row.aside, row.id.desc()))
    return {
        found.device_id: Told(
            evaluation_id=found.id,
            device_id=found.device_id,
            simulated=found.simulated,
            as_of=found.as_of,
            made_at=found.made_at,
            rule_version=found.rule_version,
            until=span.as_of,
            is_current=current.get(found.device_id) == found.id and found.as_of <= span.as_of,
            aside=found.aside,
            body=EvaluationBody.model_validate_json(found.body),
        )
        for found in session.scalars(select(row).where(row.id.in_(newest)))
    }


def current_evaluations(session: Session, *, simulated: bool) -> list[Told]:
    """The newest evaluation of every device, in the order of the devices' rows."""
    devices = select(StoredEvaluation.device_id).where(StoredEvaluation.simulated.is_(simulated)).distinct()
    span = Span(datetime.now(timezone.utc), simulated=simulated)
    found = told_of_devices(session, session.scalars(devices).all(), span, explicit=False)
    return [found[device_id] for device_id in sorted(found)]


def heads(session: Session, told: Told, *, states: Collection[str] | None = None) -> dict[str, Head]:
    """
    What an evaluation says of its gpus in a line each, by id.

    Args:
        session: to read in.
        told: the evaluation.
        states: only gpus in one of these states, now or (where measurements are missing or unusable) when last
            measured.
    """
    if told.made is not None:
        made = (_head(verdict, told.as_of) for verdict in told.made.values())
        return {head.gpu_id: head for head in made if states is None or {head.state, head.last_state} & set(states)}
    return {
        found.identity: Head(*found) for found in session.execute(heads_in(told, states)) if found.state is not None
    }


def heads_of(session: Session, told: Told, gpu_ids: Collection[str]) -> dict[str, Head]:
    """The same of some gpus."""
    if told.made is not None:
        return {gpu_id: _head(told.made[gpu_id], told.as_of) for gpu_id in gpu_ids if gpu_id in told.made}
    found: dict[str, Head] = {}
    for chunk in in_chunks(sorted(gpu_ids)):
        rows = session.execute(heads_in(told, None).where(verdict_rows(told).identity.in_(chunk)))
        found |= {row.identity: Head(*row) for row in rows if row.state is not None}
    return found


def heads_in(told: Told, states: Collection[str] | None) -> Select[Any]:
    """Query for what a stored evaluation says of its gpus in a line each, as the fields of `Head`; see `heads`."""
    row = verdict_rows(told)
    columns: list[Any] = [getattr(row, name) for name in ("identity", "state", "last_state", "since", "reason", "loss")]
    query = select(*columns).where(*_chosen(told))
    return query if states is None else query.where(_in_one_of(told, states))


def bodies(session: Session, told: Told, gpu_ids: Collection[str]) -> dict[str, ToldVerdict]:
    """All that an evaluation says of some gpus, by id."""
    if told.made is not None:
        return {gpu_id: ToldVerdict(told.as_of, told.made[gpu_id]) for gpu_id in gpu_ids if gpu_id in told.made}
    return {
        gpu_id: ToldVerdict(since, GpuVerdict.model_validate_json(body))
        for gpu_id, since, body in _stored_bodies(session, told, gpu_ids)
    }


def bodies_in_short(
    session: Session, told: Told, gpu_ids: Collection[str]
) -> dict[str, tuple[datetime, GpuVerdict | VerdictInShort]]:
    """What lists show of what an evaluation says of some gpus, by id, and since when their states hold."""
    if told.made is not None:
        return {gpu_id: (told.as_of, told.made[gpu_id]) for gpu_id in gpu_ids if gpu_id in told.made}
    return {
        gpu_id: (since, VerdictInShort.model_validate_json(body))
        for gpu_id, since, body in _stored_bodies(session, told, gpu_ids)
    }


def verdict_counts(session: Session, told: Told | None, cluster: str | None) -> dict[State, int]:
    """Gpus by state, in the order of the states; with a cluster only those that are there and known by a report."""
    if told is None:
        return {}
    if cluster is None:
        return told.body.counts
    if told.body.figures is not None and told.body.figures.clusters is not None:
        return next((own.verdicts for own in told.body.figures.clusters if own.cluster == cluster), {})
    in_cluster = select(Gpu.identity).where(Gpu.cluster == cluster, Gpu.simulated.is_(told.simulated))
    if told.made is not None:
        there = Counter(told.made[gpu_id].state for gpu_id in session.scalars(in_cluster) if gpu_id in told.made)
        return {state: there[state] for state in STATES if state in there}
    row = verdict_rows(told)
    query = (
        select(row.state, func.count().label("gpus"))
        .where(*_chosen(told, row.identity.in_(in_cluster)))
        .group_by(row.state)
    )
    counts = {found.state: found.gpus for found in session.execute(query)}
    return {state: counts[state] for state in STATES if state in counts}


def changes_of_gpu(session: Session, gpu_id: str, span: Span, *, limit: int) -> Sequence[VerdictChange]:
    """Changes of one gpu's verdict up to a time, newest first; evaluations aside are left out."""
    row = VerdictChange
    query = (
        select(row)
        .where(row.identity == gpu_id, row.simulated.is_(span.simulated), row.aside.is_(False), row.as_of <= span.as_of)
        .order_by(row.as_of.desc(), row.id.desc())
        .limit(limit)
    )
    return session.scalars(query).all()


def _stored_bodies(session: Session, told: Told, gpu_ids: Collection[str]) -> Iterator[tuple[str, datetime, str]]:
    row = verdict_rows(told)
    for chunk in in_chunks(sorted(gpu_ids)):
        query = select(row.identity, row.since, row.body).where(*_chosen(told, row.identity.in_(chunk)))
        for gpu_id, since, body in session.execute(query):
            if body is not None:
                yield gpu_id, since, body


def _head(verdict: GpuVerdict, since: datetime) -> Head:
    return Head(verdict.gpu_id, verdict.state, verdict.last_state, since, verdict.reason, verdict.worst_loss)


def _in_one_of(told: Told, states: Collection[str]) -> ColumnElement[bool]:
    """Whether a gpu is in one of some states, or was when it was last measured."""
    row = verdict_rows(told)
    if not told.is_current:
        return or_(row.state.in_(states), row.last_state.in_(states))
    # By rank, which there is an index of: few gpus are in trouble, and few have a last state.
    ranks = [rank for rank, state in enumerate(STATES) if state in states]
    current = CurrentVerdict
    found = or_(current.state_rank.in_(ranks), current.last_state.in_(states))
    return and_(current.state_rank.in_({*ranks, *_WITH_LAST_STATE}), found)


def verdict_rows(told: Told) -> type[CurrentVerdict | VerdictChange]:
    """The table that has what an evaluation says of its gpus."""
    return CurrentVerdict if told.is_current else VerdictChange


def _chosen(told: Told, *only: ColumnElement[bool]) -> list[ColumnElement[bool]]:
    """Conditions on the rows that hold what an evaluation says of its gpus, or of some of them."""
    row = verdict_rows(told)
    own = [row.device_id == told.device_id, row.simulated.is_(told.simulated), *only]
    if told.is_current:
        return own
    change = VerdictChange
    if told.aside:
        return [*own, change.evaluation_id == told.evaluation_id, change.aside.is_(True)]
    up_to = (*own, change.aside.is_(False), change.as_of <= told.until)
    return [change.id.in_(_first_of_each(change.identity, change.id, up_to, (change.as_of.desc(), change.id.desc())))]


def _newest_in_course(session: Session, device_ids: Collection[int], *, simulated: bool) -> dict[int, int]:
    row = StoredEvaluation
    chosen = (row.device_id.in_(device_ids), row.simulated.is_(simulated), row.aside.is_(False))
    newest = _first_of_each(row.device_id, row.id, chosen, (row.as_of.desc(), row.id.desc()))
    found = session.execute(select(row.device_id, row.id).where(row.id.in_(newest)))
    return {row.device_id: row.id for row in found}


def _first_of_each(
    group: InstrumentedAttribute[Any],
    key: InstrumentedAttribute[int],
    chosen: Iterable[ColumnElement[bool]],
    order: Sequence[ColumnElement[Any] | InstrumentedAttribute[Any]],
) -> Select[Any]:
    """Keys of the rows that come first in each group."""
    place = func.row_number().over(partition_by=group, order_by=order).label("place")
    ranked = select(key.label("key"), place).where(*chosen).subquery()
    return select(ranked.c.key).where(ranked.c.place == 1)
