"""
Evaluations into the database: whole or not at all.

What has to be written is made out beforehand (`rows_of`), so that the transaction does nothing but write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import cast

from sqlalchemy import Table, bindparam, delete, insert, select
from sqlalchemy.orm import Session

from fleetridge_server.db.rows import Row, in_chunks, insert_or_replace, write_rows
from fleetridge_server.db.tables import Device
from fleetridge_server.db.verdict_tables import CurrentVerdict, EvaluationColumns, StoredEvaluation, VerdictChange
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.gpu_state import ACCUSING, STATES, State, what_is_said
from fleetridge_server.verdicts.alert_causes import AlertCause
from fleetridge_server.verdicts.alerts import Settled, settle_alerts
from fleetridge_server.verdicts.series import (
    DeviceGroup,
    KnownVerdict,
    SeriesEnd,
    is_behind,
    is_future_dated,
    newest_evaluation,
    of_device_group,
    redate,
)

_CURRENT = cast("Table", CurrentVerdict.__table__)
_CHANGES = cast("Table", VerdictChange.__table__)
_COLUMNS = cast("Table", EvaluationColumns.__table__)

# While a gpu is accused its numbers are recorded anew so often, though nothing else changed.
_RECORDED_EVERY = timedelta(days=7)

# Lists that began under one of these go on in its order; a page is asked for within minutes of the one before.
_WITH_COLUMNS = 3

_DIGEST_BYTES = 16


class SupersededError(RuntimeError):
    """Another evaluation of the same gpus stands, for a later time; nothing of this one was stored, nor needs to be."""


@fast_dataclass
class NewVerdict:
    """
    What an evaluation says of one gpu.

    Attributes:
        loss: largest over its judged roofs, by this evaluation.
        accused: judged roofs in which it is accused, a line each.
        text: the sentence on it.
        body: of its `VerdictRecord`, packed, as those of a fleet are held all at once; None where it is known to stand
            already and no row needs it.
        digest: of the body before it was packed.
    """

    identity: str
    state: State
    last_state: State | None
    reason: str | None
    loss: float | None
    accused: str
    text: str
    body: bytes | None
    digest: bytes


@dataclass(frozen=True, slots=True)
class NewEvaluation:
    """An evaluation as it is to be stored; `columns` are `evaluation_columns` by part, packed."""

    device_group: DeviceGroup
    as_of: datetime
    made_at: datetime
    took_ms: float
    rule_version: int
    counts: Mapping[State, int]
    body: str
    verdicts: Sequence[NewVerdict]
    columns: Sequence[bytes] = ()
    causes: Sequence[AlertCause] = ()


@dataclass(frozen=True, slots=True)
class VerdictRows:
    """
    Rows of `gpu_verdicts` and `verdict_changes` that an evaluation changes, without its id.

    Of `new` gpus nothing was said before, of those that are `gone` nothing is said any more.
    """

    current: tuple[Row, ...]
    changes: tuple[Row, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SavedEvaluation:
    """An evaluation that was stored; if verdicts of a time ahead count as said by now, `redated` is that time."""

    evaluation_id: int
    alerts: Settled
    redated: datetime | None = None


def digest_of(body: bytes) -> bytes:
    """Digest by which two bodies are compared: a fraction of their text, and as distinctive."""
    return blake2b(body, digest_size=_DIGEST_BYTES).digest()


def rows_of(evaluation: NewEvaluation, before: SeriesEnd) -> VerdictRows:
    """Rows that an evaluation changes: those of gpus of which anything else is said than before."""
    current: list[Row] = []
    changes: list[Row] = []
    for verdict in evaluation.verdicts:
        known = _by_now(before.known.get(verdict.identity), evaluation.as_of)
        is_change = known is None or _is_change(evaluation, verdict, known)
        if known is None or is_change or known.digest != verdict.digest:
            row = _current_row(evaluation, verdict, known)
            recorded_at = evaluation.as_of if known is None or is_change else known.recorded_at
            current.append(row | {"recorded_at": recorded_at, "digest": verdict.digest})
            if is_change:
                changes.append(_change_row(evaluation, row, verdict))
    identities = {verdict.identity for verdict in evaluation.verdicts}
    new, gone = (tuple(sorted(some)) for some in (identities - before.known.keys(), before.known.keys() - identities))
    changes += [_end_row(evaluation, identity) for identity in gone]
    return VerdictRows(tuple(current), tuple(changes), new, gone)


def save_evaluation(
    session: Session, evaluation: NewEvaluation, rows: VerdictRows, *, after: int | None
) -> SavedEvaluation:
    """
    Continue the series of evaluations by one, `rows` being what it changes of what was said `after` the one before.

    Raises:
        SupersededError: the series has gone on since, or this server's clock is behind.
    """
    device_group = evaluation.device_group
    _lock(session, device_group)
    newest = newest_evaluation(session, device_group)
    if (None if newest is None else newest.id) != after:
        raise SupersededError("the same gpus were evaluated meanwhile, for a later time; those verdicts stand")
    redated = None if newest is None or newest.as_of <= evaluation.as_of else newest.as_of
    if redated is not None:
        _redate(session, evaluation, redated)
    evaluation_id = _insert(session, evaluation, historical=False)
    _forget_older(session, device_group)
    _insert_changes(session, _ends_elsewhere(session, evaluation, rows.new), evaluation_id, historical=False)
    write_rows(session, _CURRENT, insert_or_replace(session, _CURRENT), rows.current)
    _drop_verdicts(session, device_group, rows.gone)
    _insert_changes(session, rows.changes, evaluation_id, historical=False)
    alerts = settle_alerts(
        session, device_group, evaluation.causes, evaluation_id=evaluation_id, as_of=evaluation.as_of
    )
    return SavedEvaluation(evaluation_id, alerts, redated)


def save_historical(session: Session, evaluation: NewEvaluation) -> int:
    """Store an evaluation beside the series, in the place of an earlier one as of the same time; its id."""
    _lock(session, evaluation.device_group)
    same = of_device_group(StoredEvaluation, evaluation.device_group) & StoredEvaluation.historical.is_(True)
    earlier = session.scalars(select(StoredEvaluation.id).where(same, StoredEvaluation.as_of == evaluation.as_of)).all()
    session.execute(delete(VerdictChange).where(VerdictChange.evaluation_id.in_(earlier)))
    forget_evaluations(session, earlier)
    evaluation_id = _insert(session, evaluation, historical=True)
    rows = [_change_row(evaluation, _current_row(evaluation, own, None), own) for own in evaluation.verdicts]
    bodies = {verdict.identity: verdict.body for verdict in evaluation.verdicts}
    rows = [row | {"body": bodies[row["identity"]]} for row in rows]
    _insert_changes(session, rows, evaluation_id, historical=True)
    return evaluation_id


def forget_evaluations(session: Session, evaluation_ids: Sequence[int]) -> None:
    """Drop some evaluations with their columns; what they said of gpus stays."""
    if evaluation_ids:
        session.execute(delete(EvaluationColumns).where(EvaluationColumns.evaluation_id.in_(evaluation_ids)))
        session.execute(delete(StoredEvaluation).where(StoredEvaluation.id.in_(evaluation_ids)))


def _lock(session: Session, device_group: DeviceGroup) -> None:
    """Have whoever stores an evaluation of the same device wait; those who store reports of it do not."""
    session.execute(select(Device.id).where(Device.id == device_group.device_id).with_for_update(key_share=True))


def _redate(session: Session, evaluation: NewEvaluation, said_until: datetime) -> None:
    """Have what was said as of a later time count as said by now, where the clock of now is the right one."""
    device_group, as_of = evaluation.device_group, evaluation.as_of
    if not is_future_dated(said_until, as_of) or is_behind(session, as_of):
        raise SupersededError(
            f"verdicts as of {said_until.isoformat(timespec='seconds')} stand, which is later than now"
        )
    redate(session, device_group, as_of)


def _by_now(known: KnownVerdict | None, as_of: datetime) -> KnownVerdict | None:
    """What is said of a gpu, none of it from a later time."""
    if known is None or (known.since <= as_of and known.recorded_at <= as_of):
        return known
    return replace(known, since=min(known.since, as_of), recorded_at=min(known.recorded_at, as_of))


def _insert(session: Session, evaluation: NewEvaluation, *, historical: bool) -> int:
    stored = StoredEvaluation(
        **evaluation.device_group._asdict(),
        historical=historical,
        as_of=evaluation.as_of,
        made_at=evaluation.made_at,
        took_ms=evaluation.took_ms,
        rule_version=evaluation.rule_version,
        gpus=len(evaluation.verdicts),
        counts=dict(evaluation.counts),
        body=evaluation.body,
    )
    session.add(stored)
    session.flush()
    rows = [{"evaluation_id": stored.id, "part": part, "body": body} for part, body in enumerate(evaluation.columns)]
    if rows:
        session.execute(insert(_COLUMNS), rows)
    return stored.id


def _insert_changes(session: Session, rows: Sequence[Row], evaluation_id: int, *, historical: bool) -> None:
    of_evaluation = {"evaluation_id": evaluation_id, "historical": historical}
    write_rows(session, _CHANGES, insert(_CHANGES), [row | of_evaluation for row in rows])


def _ends_elsewhere(session: Session, evaluation: NewEvaluation, new: Sequence[str]) -> list[Row]:
    """Changes of gpus that were spoken of as another device until now."""
    rows: list[Row] = []
    for identities in in_chunks(new):
        simulated = evaluation.device_group.simulated
        elsewhere = select(CurrentVerdict.identity, CurrentVerdict.device_id).where(
            CurrentVerdict.identity.in_(identities),
            CurrentVerdict.simulated.is_(simulated),
            CurrentVerdict.device_id != evaluation.device_group.device_id,
        )
        rows += [
            _end_row(evaluation, row.identity) | {"device_id": row.device_id} for row in session.execute(elsewhere)
        ]
    return rows


def _drop_verdicts(session: Session, device_group: DeviceGroup, identities: Sequence[str]) -> None:
    # One by one: many at once SQLite looks for among all gpus of the device.
    if identities:
        is_gone = of_device_group(CurrentVerdict, device_group), _CURRENT.c.identity == bindparam("gone")
        session.execute(delete(_CURRENT).where(*is_gone), [{"gone": identity} for identity in identities])


def _forget_older(session: Session, device_group: DeviceGroup) -> None:
    """
    Keep the last evaluation of each hour, and what gpus count for by the newest few alone.

    The newest few stay as they are even within one hour, so that a list that began under one of them goes on.
    """
    series = (
        select(StoredEvaluation.id, StoredEvaluation.as_of)
        .where(of_device_group(StoredEvaluation, device_group), StoredEvaluation.historical.is_(False))
        .order_by(StoredEvaluation.as_of.desc(), StoredEvaluation.id.desc())
    )
    # Whatever left the newest few with an earlier evaluation was looked at then.
    rows = session.execute(series.limit(2 * _WITH_COLUMNS)).all()
    hours = [row.as_of.replace(minute=0, second=0, microsecond=0) for row in rows]
    places = range(_WITH_COLUMNS, len(rows))
    forget_evaluations(session, [rows[place].id for place in places if hours[place] == hours[place - 1]])
    older = session.scalars(
        series.with_only_columns(StoredEvaluation.id).offset(_WITH_COLUMNS).limit(_WITH_COLUMNS)
    ).all()
    session.execute(
        delete(EvaluationColumns).where(EvaluationColumns.evaluation_id.in_(older), EvaluationColumns.part > 0)
    )


def _is_change(evaluation: NewEvaluation, verdict: NewVerdict, known: KnownVerdict) -> bool:
    """Whether what is said of a gpu belongs into its changes."""
    now = verdict.state, verdict.last_state, verdict.reason, verdict.accused
    if now != (known.state, known.last_state, known.reason, known.accused):
        return True
    is_accused = what_is_said(verdict.state, verdict.last_state) in ACCUSING
    return is_accused and evaluation.as_of - known.recorded_at >= _RECORDED_EVERY


def _current_row(evaluation: NewEvaluation, verdict: NewVerdict, known: KnownVerdict | None) -> Row:
    return {
        **evaluation.device_group._asdict(),
        "identity": verdict.identity,
        "state": verdict.state,
        "last_state": verdict.last_state,
        "state_rank": STATES.index(verdict.state),
        "since": known.since if known is not None and known.state == verdict.state else evaluation.as_of,
        "reason": verdict.reason,
        "accused": verdict.accused,
        "body": verdict.body,
    }


def _change_row(evaluation: NewEvaluation, row: Row, verdict: NewVerdict | None) -> Row:
    said = {name: row[name] for name in ("identity", "state", "last_state", "since", "reason")}
    return {
        **said,
        **evaluation.device_group._asdict(),
        "loss": None if verdict is None else verdict.loss,
        "text": None if verdict is None else verdict.text,
        "body": None,
        "as_of": evaluation.as_of,
        "made_at": evaluation.made_at,
    }


def _end_row(evaluation: NewEvaluation, identity: str) -> Row:
    """Change from when on nothing is said of a gpu."""
    nothing = dict.fromkeys(("state", "last_state", "reason"))
    return _change_row(evaluation, {**nothing, "identity": identity, "since": evaluation.as_of}, None)
