"""
The series of evaluations of each device: what is newest in it, and which rows are its.

It carries the current verdicts, their changes and the alerts. A historical evaluation, asked for as of a time of the
past, touches none of that; it has a verdict of its own on each gpu. `evaluation.save` writes evaluations,
`evaluation.read` reads them back for answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from fleetridge_server.record import record
from fleetridge_server.store.due import Population
from fleetridge_server.store.verdict_models import CurrentVerdict, StoredEvaluation


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """As of when a series was last continued, when that was, and how long it took."""

    as_of: datetime
    made_at: datetime
    took: timedelta


@record
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
    """
    Where the series of a device stands.

    Attributes:
        evaluation_id: the newest; None where there is none.
        known: what it says, by gpu.
    """

    evaluation_id: int | None
    known: Mapping[str, KnownVerdict]


# What a historical evaluation is compared with: all that it says is new.
NO_SERIES = SeriesEnd(None, {})


def of_population(table: type[StoredEvaluation | CurrentVerdict], population: Population) -> ColumnElement[bool]:
    """Rows of a table that are about one population."""
    return and_(table.device_id == population.device_id, table.simulated.is_(population.simulated))


def newest_evaluation(session: Session, population: Population) -> StoredEvaluation | None:
    """The newest evaluation of a series; the current verdicts are its."""
    chosen = select(StoredEvaluation).where(
        of_population(StoredEvaluation, population), StoredEvaluation.historical.is_(False)
    )
    return session.scalars(chosen.order_by(StoredEvaluation.as_of.desc(), StoredEvaluation.id.desc()).limit(1)).first()


def last_evaluations(session: Session) -> dict[Population, LastEvaluation]:
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
        Population(row.device_id, row.simulated): LastEvaluation(
            row.as_of, row.made_at, timedelta(milliseconds=row.took_ms)
        )
        for row in session.execute(newest)
    }


def series_end(session: Session, population: Population) -> SeriesEnd:
    """Where the series of a device stands."""
    newest = newest_evaluation(session, population)
    columns = (CurrentVerdict.identity, *(getattr(CurrentVerdict, name) for name in KnownVerdict.__dataclass_fields__))
    rows = session.connection().execute(select(*columns).where(of_population(CurrentVerdict, population))).all()
    return SeriesEnd(None if newest is None else newest.id, {row[0]: KnownVerdict(*row[1:]) for row in rows})
