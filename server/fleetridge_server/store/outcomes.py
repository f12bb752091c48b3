"""
Outcomes of evaluations into the database: whole or not at all.

What has to be written is made out beforehand (`writing_of`), so that the transaction does nothing but write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from hashlib import blake2b
from typing import cast

from sqlalchemy import Table, bindparam, delete, insert, select
from sqlalchemy.orm import Session

from fleetridge_server.record import record
from fleetridge_server.store.alerts import AlertCause, Settled, settle_alerts
from fleetridge_server.store.bulk import write_rows
from fleetridge_server.store.due import Population
from fleetridge_server.store.evaluations import Course, Known, newest_evaluation, of_population
from fleetridge_server.store.foretold import is_behind, is_foretold, take_back
from fleetridge_server.store.models import Device
from fleetridge_server.store.upserts import Row, in_chunks, insert_or_replace
from fleetridge_server.store.verdict_models import CurrentVerdict, StoredEvaluation, VerdictChange
from fleetridge_server.verdict.state import ACCUSING, STATES, State

_CURRENT = cast("Table", CurrentVerdict.__table__)
_CHANGES = cast("Table", VerdictChange.__table__)

# While a gpu is accused its numbers are told anew so often, though nothing else changed.
_TOLD_EVERY = timedelta(days=7)

_DIGEST_BYTES = 16


class SupersededError(RuntimeError):
    """Another evaluation of the same gpus stands, for a later time; nothing of this one was stored, nor needs to be."""


@record
class Said:
    """
    What an evaluation says of one gpu.

    Attributes:
        accused: judged roofs in which it is accused, a line each.
        rank: `compare.ranking.packed_rank`.
        body: JSON of its `GpuVerdict`, packed, as those of a fleet are held all at once.
        digest: of the body.
    """

    identity: str
    state: State
    last_state: State | None
    reason: str | None
    loss: float | None
    accused: str
    rank: bytes
    body: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    An evaluation as it is to be stored.

    Attributes:
        took_ms: time that it took, in ms.
        body: JSON of its `EvaluationBody`.
        said: of each gpu that has a state.
        causes: of alerts.
    """

    population: Population
    as_of: datetime
    made_at: datetime
    took_ms: float
    rule_version: int
    counts: Mapping[State, int]
    body: str
    said: Sequence[Said]
    causes: Sequence[AlertCause] = ()


@dataclass(frozen=True, slots=True)
class Writing:
    """
    Rows that an outcome changes, without the id of their evaluation.

    Attributes:
        current: of `gpu_verdicts`; changes: of `verdict_changes`.
        new: gpus of which nothing was said before.
        gone: gpus of which nothing is said any more.
    """

    current: tuple[Row, ...]
    changes: tuple[Row, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """
    An evaluation that was stored.

    Attributes:
        alerts: that it opened and resolved.
        foretold: as of when something had been said that counts as said by now; None where nothing had.
    """

    evaluation_id: int
    alerts: Settled
    foretold: datetime | None = None


def digest_of(body: bytes) -> bytes:
    """Digest by which a packed body is told from another one: a quarter of its text, and as telling."""
    return blake2b(body, digest_size=_DIGEST_BYTES).digest()


def writing_of(outcome: Outcome, before: Course) -> Writing:
    """Rows that an outcome changes: those of gpus of which anything else is said than before."""
    current: list[Row] = []
    changes: list[Row] = []
    for said in outcome.said:
        known = _by_now(before.known.get(said.identity), outcome.as_of)
        is_told = known is None or _is_told(outcome, said, known)
        if known is None or is_told or known.digest != said.digest:
            row = _current_row(outcome, said, known)
            told_at = outcome.as_of if known is None or is_told else known.told_at
            current.append(row | {"told_at": told_at, "digest": said.digest})
            if is_told:
                changes.append(_change_row(outcome, row))
    identities = {said.identity for said in outcome.said}
    new, gone = (tuple(sorted(some)) for some in (identities - before.known.keys(), before.known.keys() - identities))
    changes += [_end_row(outcome, identity) for identity in gone]
    return Writing(tuple(current), tuple(changes), new, gone)


def save_evaluation(session: Session, outcome: Outcome, writing: Writing, *, after: int | None) -> Saved:
    """
    Continue the course of evaluations.

    Args:
        session: of a transaction that stores all of it.
        outcome: to store.
        writing: its rows.
        after: the evaluation that `writing` was made beside.

    Raises:
        SupersededError: the course has gone on since, or this server's clock is behind.
    """
    population = outcome.population
    _lock(session, population)
    newest = newest_evaluation(session, population)
    if (None if newest is None else newest.id) != after:
        raise SupersededError("the same gpus were evaluated meanwhile, for a later time; those verdicts stand")
    foretold = None if newest is None or newest.as_of <= outcome.as_of else newest.as_of
    if foretold is not None:
        _take_back(session, outcome, foretold)
    evaluation_id = _insert(session, outcome, aside=False)
    _forget(session, _earlier_of_day(session, outcome, evaluation_id))
    _insert_changes(session, _ends_elsewhere(session, outcome, writing.new), evaluation_id, aside=False)
    current = [row | {"evaluation_id": evaluation_id} for row in writing.current]
    write_rows(session, _CURRENT, insert_or_replace(session, _CURRENT), current)
    _drop_verdicts(session, population, writing.gone)
    _insert_changes(session, writing.changes, evaluation_id, aside=False)
    alerts = settle_alerts(session, population, outcome.causes, evaluation_id=evaluation_id, as_of=outcome.as_of)
    return Saved(evaluation_id, alerts, foretold)


def save_aside(session: Session, outcome: Outcome, writing: Writing) -> int:
    """Store an evaluation beside the course, in the place of an earlier one as of the same time; its id."""
    _lock(session, outcome.population)
    same = of_population(StoredEvaluation, outcome.population) & StoredEvaluation.aside.is_(True)
    earlier = session.scalars(select(StoredEvaluation.id).where(same, StoredEvaluation.as_of == outcome.as_of)).all()
    session.execute(delete(VerdictChange).where(VerdictChange.evaluation_id.in_(earlier)))
    _forget(session, earlier)
    evaluation_id = _insert(session, outcome, aside=True)
    _insert_changes(session, writing.changes, evaluation_id, aside=True)
    return evaluation_id


def _lock(session: Session, population: Population) -> None:
    """Have whoever stores an evaluation of the same device wait; those who store reports of it do not."""
    session.execute(select(Device.id).where(Device.id == population.device_id).with_for_update(key_share=True))


def _take_back(session: Session, outcome: Outcome, foretold: datetime) -> None:
    """Have what was said as of a later time count as said by now, where the clock of now is the right one."""
    population, as_of = outcome.population, outcome.as_of
    if not is_foretold(foretold, as_of) or is_behind(session, as_of):
        raise SupersededError(f"verdicts as of {foretold.isoformat(timespec='seconds')} stand, which is later than now")
    take_back(session, population, as_of)


def _by_now(known: Known | None, as_of: datetime) -> Known | None:
    """What is said of a gpu, none of it from a later time."""
    if known is None or (known.since <= as_of and known.told_at <= as_of):
        return known
    return replace(known, since=min(known.since, as_of), told_at=min(known.told_at, as_of))


def _insert(session: Session, outcome: Outcome, *, aside: bool) -> int:
    stored = StoredEvaluation(
        **outcome.population._asdict(),
        aside=aside,
        as_of=outcome.as_of,
        made_at=outcome.made_at,
        took_ms=outcome.took_ms,
        rule_version=outcome.rule_version,
        gpus=len(outcome.said),
        counts=dict(outcome.counts),
        body=outcome.body,
    )
    session.add(stored)
    session.flush()
    return stored.id


def _insert_changes(session: Session, rows: Sequence[Row], evaluation_id: int, *, aside: bool) -> None:
    of_evaluation = {"evaluation_id": evaluation_id, "aside": aside}
    write_rows(session, _CHANGES, insert(_CHANGES), [row | of_evaluation for row in rows])


def _ends_elsewhere(session: Session, outcome: Outcome, new: Sequence[str]) -> list[Row]:
    """Changes of gpus that were spoken of as another device until now."""
    rows: list[Row] = []
    for identities in in_chunks(new):
        simulated = outcome.population.simulated
        elsewhere = select(CurrentVerdict.identity, CurrentVerdict.device_id).where(
            CurrentVerdict.identity.in_(identities),
            CurrentVerdict.simulated.is_(simulated),
            CurrentVerdict.device_id != outcome.population.device_id,
        )
        rows += [_end_row(outcome, row.identity) | {"device_id": row.device_id} for row in session.execute(elsewhere)]
    return rows


def _drop_verdicts(session: Session, population: Population, identities: Sequence[str]) -> None:
    # One by one: many at once SQLite looks for among all gpus of the device.
    if identities:
        is_gone = of_population(CurrentVerdict, population), _CURRENT.c.identity == bindparam("gone")
        session.execute(delete(_CURRENT).where(*is_gone), [{"gone": identity} for identity in identities])


def _earlier_of_day(session: Session, outcome: Outcome, evaluation_id: int) -> Sequence[int]:
    """Evaluations of the course as of the same day, of which only the last is kept."""
    day = datetime.combine(outcome.as_of.date(), time(), outcome.as_of.tzinfo)
    chosen = select(StoredEvaluation.id).where(
        of_population(StoredEvaluation, outcome.population),
        StoredEvaluation.aside.is_(False),
        StoredEvaluation.as_of >= day,
        StoredEvaluation.as_of <= outcome.as_of,
        StoredEvaluation.id != evaluation_id,
    )
    return session.scalars(chosen).all()


def _forget(session: Session, evaluation_ids: Sequence[int]) -> None:
    if evaluation_ids:
        session.execute(delete(StoredEvaluation).where(StoredEvaluation.id.in_(evaluation_ids)))


def _is_told(outcome: Outcome, said: Said, known: Known) -> bool:
    """Whether what is said of a gpu belongs into its changes."""
    now = said.state, said.last_state, said.reason, said.accused
    if now != (known.state, known.last_state, known.reason, known.accused):
        return True
    is_accused = (said.last_state or said.state) in ACCUSING
    return is_accused and outcome.as_of - known.told_at >= _TOLD_EVERY


def _current_row(outcome: Outcome, said: Said, known: Known | None) -> Row:
    return {
        **outcome.population._asdict(),
        "identity": said.identity,
        "state": said.state,
        "last_state": said.last_state,
        "state_rank": STATES.index(said.state),
        "since": known.since if known is not None and known.state == said.state else outcome.as_of,
        "reason": said.reason,
        "loss": said.loss,
        "accused": said.accused,
        "rank": said.rank,
        "former_rank": None if known is None else known.rank,
        "body": said.body,
    }


def _change_row(outcome: Outcome, row: Row) -> Row:
    told = {name: row[name] for name in ("identity", "state", "last_state", "since", "reason", "loss", "body")}
    return told | {**outcome.population._asdict(), "as_of": outcome.as_of, "made_at": outcome.made_at}


def _end_row(outcome: Outcome, identity: str) -> Row:
    """Change from when on nothing is said of a gpu."""
    nothing = dict.fromkeys(("state", "last_state", "reason", "loss", "body"))
    return _change_row(outcome, {**nothing, "identity": identity, "since": outcome.as_of})
