"""
The series of evaluations of a device group: what is due, the newest evaluation, and those dated in the future.

- Due: noted by the transaction that stores a report, so that nothing is forgotten whichever server takes the report and
  whichever one evaluates. `take_due` marks a note before the evaluation reads, and `settle_due` deletes it in the
  transaction that stores the evaluation, unless something arrived since: whoever is killed between leaves it there.
- Series: the current verdicts, their changes and the alerts belong to it. A historical evaluation, asked for as of a
  past time, touches none of that; it has a verdict of its own on each gpu. `verdicts.save` writes evaluations,
  `verdicts.stored` reads them back for answers.
- Dated in the future: made as of a time that has not come, by a server whose clock was ahead. They are redated to now
  once the clocks of the nodes show that the clock of then was wrong and not the one of now; nothing is lost, and all
  stays in its order.
"""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, cast

from sqlalchemy import ColumnElement, Table, and_, delete, func, or_, select, tuple_, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from fleetridge_server.db.rows import insert_ignoring
from fleetridge_server.db.tables import Gpu, Report, is_trusted
from fleetridge_server.db.verdict_tables import (
    Alert,
    CurrentVerdict,
    EvaluationColumns,
    EvaluationDue,
    StoredEvaluation,
    VerdictChange,
)
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.rule import CLOCK_AHEAD_TOLERATED

_DUE = cast("Table", EvaluationDue.__table__)

# All calls of a device would wait for one another if each wrote the time of the last.
_FINENESS = timedelta(seconds=1)

# In place of the last arrival a note that was taken has a time of these eleven days, at which nothing arrived: what
# arrives is always later. Another one for each evaluation, so that none takes another's note for its own.
_TAKEN_FROM = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MARKS = 10**12
_TAKEN_UNTIL = _TAKEN_FROM + timedelta(microseconds=_MARKS)


class DeviceGroup(NamedTuple):
    """The real or the made-up gpus of one device: what one evaluation judges."""

    device_id: int
    simulated: bool


def device_groups_of(session: Session, gpu_rows: Collection[int], node_rows: Collection[int]) -> set[DeviceGroup]:
    """Device groups of some gpus, and of the gpus of some nodes, by their rows."""
    query = select(Gpu.device_id, Gpu.simulated).where(or_(Gpu.id.in_(gpu_rows), Gpu.node_id.in_(node_rows))).distinct()
    return {DeviceGroup(*row) for row in session.connection().execute(query)}


def note_due(session: Session, device_groups: Collection[DeviceGroup], at: datetime) -> None:
    """
    Note that something arrived; the last thing that a transaction does.

    A note that is there is locked against deletion until the transaction ends, and not against others who find it.
    """
    if not device_groups:
        return
    chosen = tuple_(EvaluationDue.device_id, EvaluationDue.simulated).in_(sorted(device_groups))
    there = (
        select(EvaluationDue.device_id, EvaluationDue.simulated, EvaluationDue.latest)
        .where(chosen)
        .order_by(EvaluationDue.device_id, EvaluationDue.simulated)
        .with_for_update(read=True, key_share=True)
    )
    latest = {DeviceGroup(row.device_id, row.simulated): row.latest for row in session.connection().execute(there)}
    new = sorted(set(device_groups) - latest.keys())
    if new:
        rows = [{**device_group._asdict(), "since": at, "latest": at} for device_group in new]
        session.execute(insert_ignoring(session, _DUE), rows)
    for device_group in sorted(latest):
        if at - latest[device_group] >= _FINENESS:
            # What is in an evaluator's hands is no reason to wait less for what arrives now.
            since = {"since": at} if latest[device_group] < _TAKEN_UNTIL else {}
            session.execute(update(EvaluationDue).where(_is(device_group)).values(latest=at, **since))


def take_due(session: Session, device_group: DeviceGroup) -> datetime:
    """
    Mark the note on one device group as in an evaluator's hands, before its reports are read; the mark.

    It waits for those who found the note and have not stored their report yet.
    """
    mark = _TAKEN_FROM + timedelta(microseconds=secrets.randbelow(_MARKS))
    session.execute(select(EvaluationDue.since).where(_is(device_group)).with_for_update())
    session.execute(update(EvaluationDue).where(_is(device_group)).values(latest=mark))
    return mark


def settle_due(session: Session, device_group: DeviceGroup, mark: datetime) -> None:
    """Delete a note that was taken; the last thing that a transaction does. One to which something came since stays."""
    session.execute(delete(EvaluationDue).where(_is(device_group), EvaluationDue.latest == mark))


def due_notes(session: Session) -> dict[DeviceGroup, EvaluationDue]:
    """All notes."""
    return {DeviceGroup(note.device_id, note.simulated): note for note in session.scalars(select(EvaluationDue))}


def _is(device_group: DeviceGroup) -> ColumnElement[bool]:
    return and_(EvaluationDue.device_id == device_group.device_id, EvaluationDue.simulated.is_(device_group.simulated))


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """As of when a series was last continued, when that was, and how long it took."""

    as_of: datetime
    made_at: datetime
    took: timedelta


@fast_dataclass
class KnownVerdict:
    """What is said of a gpu before an evaluation, as far as it decides what has to be written."""

    state: str
    last_state: str | None
    since: datetime
    reason: str | None
    accused: str
    recorded_at: datetime
    digest: bytes


@dataclass(frozen=True, slots=True)
class SeriesEnd:
    """Where the series of a device stands: the newest evaluation, if any, and what it says by gpu."""

    evaluation_id: int | None
    known: Mapping[str, KnownVerdict]


# What a historical evaluation is compared with: all that it says is new.
NO_SERIES = SeriesEnd(None, {})


def of_device_group(table: type[StoredEvaluation | CurrentVerdict], device_group: DeviceGroup) -> ColumnElement[bool]:
    """Rows of a table that are about one device group."""
    return and_(table.device_id == device_group.device_id, table.simulated.is_(device_group.simulated))


def newest_evaluation(session: Session, device_group: DeviceGroup) -> StoredEvaluation | None:
    """The newest evaluation of a series; the current verdicts are its."""
    chosen = select(StoredEvaluation).where(
        of_device_group(StoredEvaluation, device_group), StoredEvaluation.historical.is_(False)
    )
    return session.scalars(chosen.order_by(StoredEvaluation.as_of.desc(), StoredEvaluation.id.desc()).limit(1)).first()


def last_evaluations(session: Session) -> dict[DeviceGroup, LastEvaluation]:
    """When every series was last continued."""
    columns = (StoredEvaluation.device_id, StoredEvaluation.simulated)
    rank = func.row_number().over(
        partition_by=columns, order_by=(StoredEvaluation.as_of.desc(), StoredEvaluation.id.desc())
    )
    ranked = (
        select(*columns, StoredEvaluation.as_of, StoredEvaluation.made_at, StoredEvaluation.took_ms, rank.label("rank"))
        .where(StoredEvaluation.historical.is_(False))
        .subquery()
    )
    newest = select(ranked).where(ranked.c.rank == 1)
    return {
        DeviceGroup(row.device_id, row.simulated): LastEvaluation(
            row.as_of, row.made_at, timedelta(milliseconds=row.took_ms)
        )
        for row in session.execute(newest)
    }


def series_end(session: Session, device_group: DeviceGroup) -> SeriesEnd:
    """Where the series of a device stands."""
    newest = newest_evaluation(session, device_group)
    columns = (CurrentVerdict.identity, *(getattr(CurrentVerdict, name) for name in KnownVerdict.__dataclass_fields__))
    rows = session.connection().execute(select(*columns).where(of_device_group(CurrentVerdict, device_group))).all()
    return SeriesEnd(None if newest is None else newest.id, {row[0]: KnownVerdict(*row[1:]) for row in rows})


# So many reports are enough: they are of more nodes than have a clock that nobody looks after, and read in no time.
_REPORTS_ASKED = 1000


def is_future_dated(at: datetime, now: datetime) -> bool:
    """Whether a time is further ahead than clocks of servers differ."""
    return at - now > CLOCK_AHEAD_TOLERATED


def is_behind(session: Session, now: datetime) -> bool:
    """
    Whether it is later than `now` by the clocks of the nodes: most reports that arrived later were sent later, too.

    Where one does not say when it was sent, its ordering time decides. Imports say nothing; where they alone arrived
    later, it may be so. Where nothing did, nothing says so.
    """
    columns = Report.run_kind, func.coalesce(Report.sent_at, Report.ordered_at)
    later = select(*columns).where(Report.received_at > now + CLOCK_AHEAD_TOLERATED, is_trusted(Report))
    found = session.execute(later.order_by(Report.received_at.desc()).limit(_REPORTS_ASKED)).all()
    ahead = [is_future_dated(at, now) for kind, at in found if kind != "import" and at is not None]
    return 2 * sum(ahead) > len(ahead) if ahead else bool(found)


def redate(session: Session, device_group: DeviceGroup, now: datetime) -> None:
    """
    Have all that was said of a device as of later times count as said now, in a transaction of the caller's.

    Its evaluations go, as the earlier ones of a day do; changes of verdicts, verdicts and alerts get the time.
    """
    series = of_device_group(StoredEvaluation, device_group) & StoredEvaluation.historical.is_(False)
    later = select(StoredEvaluation.id).where(series, StoredEvaluation.as_of > now)
    session.execute(delete(EvaluationColumns).where(EvaluationColumns.evaluation_id.in_(later)))
    session.execute(delete(StoredEvaluation).where(series, StoredEvaluation.as_of > now))
    changes = _is_of(VerdictChange, device_group) & VerdictChange.historical.is_(False) & (VerdictChange.as_of > now)
    _bring_back(session, changes, (VerdictChange.since, VerdictChange.made_at, VerdictChange.as_of), now)
    verdicts = of_device_group(CurrentVerdict, device_group)
    _bring_back(session, verdicts, (CurrentVerdict.since, CurrentVerdict.recorded_at), now)
    _bring_back(session, _is_of(Alert, device_group), (Alert.opened_at, Alert.last_seen, Alert.resolved_at), now)


def _is_of(table: type[VerdictChange | Alert], device_group: DeviceGroup) -> ColumnElement[bool]:
    return (table.device_id == device_group.device_id) & table.simulated.is_(device_group.simulated)


def _bring_back(
    session: Session,
    chosen: ColumnElement[bool],
    times: tuple[InstrumentedAttribute[datetime | None], ...],
    now: datetime,
) -> None:
    """Put times of some rows that are later to now, the ones by which rows are chosen last."""
    for column in times:
        session.execute(update(column.class_).where(chosen, column > now).values({column: now}))


class JudgedUntil(NamedTuple):
    """What an evaluation knows: reports that were measured by a time, of those that had arrived by another."""

    measured: datetime
    received: datetime
