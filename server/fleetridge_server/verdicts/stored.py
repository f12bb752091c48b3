"""
Stored evaluations read back: the one that answers for a time, and what it says of gpus.

Every number of an answer comes from one evaluation, which this finds. For now and until the next evaluation that is the
newest; for an earlier time one that somebody had made as of it, else the last before, of which figures and order are
kept and the verdicts on single gpus are not.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Gpu
from fleetridge_server.db.verdict_tables import CurrentVerdict, EvaluationColumns, StoredEvaluation, VerdictChange
from fleetridge_server.engine.cohort import Span
from fleetridge_server.engine.gpu_state import STATES, UNUSABLE, State
from fleetridge_server.verdicts.evaluation_shapes import EvaluationBody, References, references_of
from fleetridge_server.verdicts.fleet_order import (
    CohortColumn,
    FleetOrder,
    fleet_order,
    unpacked_column,
    unpacked_order,
)
from fleetridge_server.verdicts.record import VerdictRecord, shown_verdict
from fleetridge_server.verdicts.series import JudgedUntil
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict

# An evaluation answers for the time after it until the next, which comes within the hour; after a day and a half
# without one nobody evaluated, and what was said says nothing.
ANSWERS_FOR = timedelta(hours=36)

# Orders and columns that a process keeps opened: of a large fleet some megabytes each.
_OPENED = 32
_opened_body = lru_cache(_OPENED)(EvaluationBody.model_validate_json)
_opened_order = lru_cache(_OPENED)(unpacked_order)
_opened_column = lru_cache(_OPENED)(unpacked_column)


@dataclass(frozen=True)
class Unstored:
    """What an evaluation that was made for an answer says, and nobody stored: records by gpu, columns by cohort."""

    records: Mapping[str, VerdictRecord]
    order: FleetOrder
    columns: Sequence[CohortColumn]


@dataclass(frozen=True)
class EvaluationRef:
    """
    The evaluation of one device that answers for a time.

    Attributes:
        evaluation_id: its row; None where it was made for this answer and is not stored.
        made_at: None where it was made for this answer.
        until: the time that it answers for.
        is_current: whether the gpus' verdicts are those of now.
        historical: whether it stands beside the series, with verdicts of its own.
        body: what it says besides its gpus.
        references: what gpus are held against.
        unstored: where it was made for this answer.
    """

    evaluation_id: int | None
    device_id: int
    simulated: bool
    as_of: datetime
    made_at: datetime | None
    rule_version: int
    until: datetime
    is_current: bool
    historical: bool
    body: EvaluationBody
    references: References
    unstored: Unstored | None = None

    @property
    def judged_until(self) -> JudgedUntil:
        """Which reports it knows: those of the past had all arrived when somebody had it judged."""
        return JudgedUntil(self.as_of, self.made_at if self.historical and self.made_at is not None else self.as_of)

    @property
    def has_verdicts(self) -> bool:
        """Whether the numbers of single gpus are known; of an older evaluation of the series only states are."""
        return self.is_current or self.historical or self.unstored is not None


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """What was said of one gpu, in a line: since when, the code of the first reason, the largest judged loss."""

    gpu_id: str
    state: State
    last_state: State | None
    since: datetime
    reason: str | None
    loss: float | None


class DatedVerdict(NamedTuple):
    """A verdict, and when its state began."""

    since: datetime
    verdict: GpuVerdict


def evaluation_at(session: Session, device_id: int, span: Span, *, explicit: bool) -> EvaluationRef | None:
    """
    The stored evaluation that answers for a time; None where none does.

    Args:
        session: to read in.
        device_id: of the device.
        span: time, and real or simulated gpus.
        explicit: whether the time was asked for; if not, the newest evaluation answers however old it is.
    """
    return evaluations_at(session, [device_id], span, explicit=explicit).get(device_id)


def evaluations_at(
    session: Session, device_ids: Collection[int], span: Span, *, explicit: bool
) -> dict[int, EvaluationRef]:
    """The stored evaluations that answer for a time, by device."""
    row = StoredEvaluation
    current = _newest_of_series(session, device_ids, simulated=span.simulated)
    chosen: set[int] = set(current.values())
    if explicit:
        period = (row.as_of <= span.as_of, row.as_of >= span.as_of - ANSWERS_FOR)
        at_then = (row.device_id.in_(device_ids), row.simulated.is_(span.simulated), *period)
        # Of the same time one with verdicts of its own; where the newest of the series is, that is chosen anyhow.
        order = (row.as_of.desc(), row.historical.desc(), row.id.desc())
        chosen |= set(session.scalars(_first_of_each(row.device_id, row.id, at_then, order)))
    found: dict[int, EvaluationRef] = {}
    for stored in session.scalars(select(row).where(row.id.in_(chosen)).order_by(row.as_of, row.historical, row.id)):
        is_newest = current.get(stored.device_id) == stored.id
        # The newest of the series answers for every time since, whatever somebody had made of the past meanwhile.
        known = found.get(stored.device_id)
        is_beaten = (
            known is not None and known.is_current and (stored.as_of < span.as_of or stored.as_of == known.as_of)
        )
        if not is_beaten and (stored.as_of <= span.as_of or (is_newest and not explicit)):
            found[stored.device_id] = _ref(stored, span, is_newest=is_newest)
    return found


def stored_evaluation(session: Session, evaluation_id: int, beside: EvaluationRef) -> EvaluationRef | None:
    """Another evaluation of the same device whose columns are kept, None where it is gone; not for single verdicts."""
    stored = session.get(StoredEvaluation, evaluation_id)
    if stored is None or (stored.device_id, stored.simulated) != (beside.device_id, beside.simulated):
        return None
    is_kept = _blob(session, evaluation_id, 1) is not None
    return _ref(stored, Span(beside.until, simulated=beside.simulated), is_newest=False) if is_kept else None


def current_evaluations(session: Session, *, simulated: bool) -> list[EvaluationRef]:
    """The newest evaluation of every device, in the order of the devices' rows."""
    devices = select(StoredEvaluation.device_id).where(StoredEvaluation.simulated.is_(simulated)).distinct()
    span = Span(datetime.now(timezone.utc), simulated=simulated)
    found = evaluations_at(session, session.scalars(devices).all(), span, explicit=False)
    return [found[device_id] for device_id in sorted(found)]


def order_of(session: Session, ref: EvaluationRef) -> FleetOrder:
    """The gpus of an evaluation, worst first."""
    if ref.unstored is not None:
        return ref.unstored.order
    blob = _blob(session, ref.evaluation_id, 0)
    return fleet_order(()) if blob is None else _opened_order(blob)


def columns_of(session: Session, ref: EvaluationRef, cohorts: Iterable[int]) -> dict[int, CohortColumn] | None:
    """
    What the gpus of an evaluation count for in some cohorts, by their numbers in its body.

    None where that is not kept any more: of the series only the newest few evaluations keep it.
    """
    wanted = sorted(set(cohorts))
    if ref.unstored is not None:
        return {number: ref.unstored.columns[number] for number in wanted}
    blobs = ((number, _blob(session, ref.evaluation_id, number + 1)) for number in wanted)
    found = {number: _opened_column(blob) for number, blob in blobs if blob is not None}
    return found if len(found) == len(wanted) else None


def verdicts_of(session: Session, ref: EvaluationRef, gpu_ids: Collection[str]) -> dict[str, DatedVerdict]:
    """All that an evaluation says of some gpus, by id; nothing where it is not kept (`has_verdicts`)."""
    if ref.unstored is not None:
        records = {gpu_id: ref.unstored.records[gpu_id] for gpu_id in gpu_ids if gpu_id in ref.unstored.records}
        begun = _begun(session, ref, {gpu_id: own.state for gpu_id, own in records.items()})
        return {
            gpu_id: DatedVerdict(begun[gpu_id], shown_verdict(gpu_id, own.body, ref.references))
            for gpu_id, own in records.items()
        }
    if not ref.has_verdicts:
        return {}
    row = _verdict_rows(ref)
    found: dict[str, DatedVerdict] = {}
    for chunk in in_chunks(sorted(gpu_ids)):
        query = select(row.identity, row.since, row.body).where(*_said_by(ref, row.identity.in_(chunk)))
        for gpu_id, since, body in session.execute(query):
            if body is not None:
                found[gpu_id] = DatedVerdict(since, shown_verdict(gpu_id, body, ref.references))
    if not ref.historical:
        return found
    begun = _begun(session, ref, {gpu_id: own.verdict.state for gpu_id, own in found.items()})
    return {gpu_id: own._replace(since=begun[gpu_id]) for gpu_id, own in found.items()}


def summaries_of(
    session: Session,
    ref: EvaluationRef,
    *,
    states: Collection[str] | None = None,
    gpu_ids: Collection[str] | None = None,
) -> dict[str, VerdictSummary]:
    """
    What an evaluation says of its gpus in a line each, by id; without `gpu_ids` of all.

    With `states` only gpus in one of these, now or (where measurements are missing or unusable) when last measured.
    """
    if ref.unstored is not None:
        records = ref.unstored.records
        named = records if gpu_ids is None else {gpu_id: records[gpu_id] for gpu_id in gpu_ids if gpu_id in records}
        begun = _begun(session, ref, {gpu_id: own.state for gpu_id, own in named.items()})
        return {
            gpu_id: VerdictSummary(gpu_id, own.state, own.last_state, begun[gpu_id], own.reason, own.loss)
            for gpu_id, own in named.items()
            if states is None or own.state in states or (own.last_state in states and own.state != "known")
        }
    row, order = _verdict_rows(ref), order_of(session, ref)
    query = select(row.identity, row.state, row.last_state, row.since, row.reason, Gpu.id).outerjoin(
        Gpu, (Gpu.identity == row.identity) & (Gpu.simulated == row.simulated)
    )
    query = query.where(row.state.is_not(None), *_said_by(ref))
    if states is not None:
        query = query.where(_in_one_of(ref, states))
    only = [()] if gpu_ids is None else [(row.identity.in_(chunk),) for chunk in in_chunks(sorted(gpu_ids))]
    found = {
        gpu_id: VerdictSummary(
            gpu_id, cast("State", state), cast("State | None", last_state), since, reason, order.loss_of(gpu_row)
        )
        for chosen in only
        for gpu_id, state, last_state, since, reason, gpu_row in session.execute(query.where(*chosen))
    }
    if not ref.historical:
        return found
    begun = _begun(session, ref, {gpu_id: own.state for gpu_id, own in found.items()})
    return {gpu_id: replace(own, since=begun[gpu_id]) for gpu_id, own in found.items()}


def _ref(stored: StoredEvaluation, span: Span, *, is_newest: bool) -> EvaluationRef:
    body = _opened_body(stored.body)
    return EvaluationRef(
        evaluation_id=stored.id,
        device_id=stored.device_id,
        simulated=stored.simulated,
        as_of=stored.as_of,
        made_at=stored.made_at,
        rule_version=stored.rule_version,
        until=span.as_of,
        is_current=is_newest,
        historical=stored.historical,
        body=body,
        references=references_of(body.cohorts),
    )


def _blob(session: Session, evaluation_id: int | None, part: int) -> bytes | None:
    row = EvaluationColumns
    found = session.scalar(select(row.body).where(row.evaluation_id == evaluation_id, row.part == part))
    return None if found is None else bytes(found)


def _verdict_rows(ref: EvaluationRef) -> type[CurrentVerdict | VerdictChange]:
    """The table that has what an evaluation says of its gpus."""
    return CurrentVerdict if ref.is_current else VerdictChange


def _said_by(ref: EvaluationRef, *only: ColumnElement[bool]) -> list[ColumnElement[bool]]:
    """Conditions on the rows that hold what an evaluation says of its gpus, or of some of them."""
    row = _verdict_rows(ref)
    own = [row.device_id == ref.device_id, row.simulated.is_(ref.simulated), *only]
    if ref.is_current:
        return own
    if ref.historical:
        return [*own, VerdictChange.evaluation_id == ref.evaluation_id, VerdictChange.historical.is_(True)]
    return [_newest_in_series(ref, *own)]


def _newest_in_series(ref: EvaluationRef, *own: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a change is the last that the series had of its gpu, of those that are chosen, as of an evaluation."""
    row = VerdictChange
    up_to = (*own, row.historical.is_(False), row.as_of <= ref.as_of)
    return row.id.in_(_first_of_each(row.identity, row.id, up_to, (row.as_of.desc(), row.id.desc())))


def _begun(session: Session, ref: EvaluationRef, states: Mapping[str, State]) -> dict[str, datetime]:
    """
    When the state of each gpu began, by an evaluation that stands beside the series.

    Where the series said the same at that time, when it said so first; else as of the evaluation.
    """
    change = VerdictChange
    of_device = change.device_id == ref.device_id, change.simulated.is_(ref.simulated)
    begun = dict.fromkeys(states, ref.as_of)
    for chunk in in_chunks(sorted(states)):
        newest = _newest_in_series(ref, *of_device, change.identity.in_(chunk))
        for gpu_id, state, since in session.execute(select(change.identity, change.state, change.since).where(newest)):
            if state == states[gpu_id]:
                begun[gpu_id] = since
    return begun


def _in_one_of(ref: EvaluationRef, states: Collection[str]) -> ColumnElement[bool]:
    """Whether a gpu is in one of some states, or was when it was last measured; what is known is that alone."""
    row = _verdict_rows(ref)
    found = or_(row.state.in_(states), and_(row.last_state.in_(states), row.state != "known"))
    if not ref.is_current:
        return found
    # By rank, which there is an index of; only states that keep what was said before have a last one.
    ranks = [rank for rank, state in enumerate(STATES) if state in states or state in UNUSABLE]
    return and_(CurrentVerdict.state_rank.in_(ranks), found)


def _newest_of_series(session: Session, device_ids: Collection[int], *, simulated: bool) -> dict[int, int]:
    row = StoredEvaluation
    chosen = (row.device_id.in_(device_ids), row.simulated.is_(simulated), row.historical.is_(False))
    newest = _first_of_each(row.device_id, row.id, chosen, (row.as_of.desc(), row.id.desc()))
    found = session.execute(select(row.device_id, row.id).where(row.id.in_(newest)))
    return {device_id: evaluation_id for device_id, evaluation_id in found}  # noqa: C416 # rows, which dict() does not take


def _first_of_each(
    group: InstrumentedAttribute[Any],
    key: InstrumentedAttribute[int],
    chosen: Iterable[ColumnElement[bool]],
    order: Sequence[ColumnElement[Any] | InstrumentedAttribute[Any]],
) -> Select[Any]:
    """Keys of the rows that come first in each group."""
    rank = func.row_number().over(partition_by=group, order_by=order).label("rank")
    ranked = select(key.label("key"), rank).where(*chosen).subquery()
    return select(ranked.c.key).where(ranked.c.rank == 1)
