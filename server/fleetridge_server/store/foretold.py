"""
What was said as of a time that has not come, by a server whose clock was ahead.

It counts as said now, once it is clear that the clock of then was wrong and not the one of now: the clocks of the nodes
tell. Nothing that was told is lost, and all stays in the order in which it was told.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from fleetridge_server.evaluation.series import of_population
from fleetridge_server.ingest.clock import TOLERATED_AHEAD
from fleetridge_server.store.counting import counts
from fleetridge_server.store.due import Population
from fleetridge_server.store.models import Report
from fleetridge_server.store.verdict_models import (
    Alert,
    CurrentVerdict,
    EvaluationColumns,
    StoredEvaluation,
    VerdictChange,
)

# So many reports tell: they are of more nodes than have a clock that nobody looks after, and read in no time.
_WITNESSES = 1000


def is_foretold(at: datetime, now: datetime) -> bool:
    """Whether a time is further ahead than clocks of servers differ."""
    return at - now > TOLERATED_AHEAD


def is_behind(session: Session, now: datetime) -> bool:
    """
    Whether it is later than `now` by the clocks of the nodes: most reports that arrived later were sent later, too.

    Where one does not say when it was sent, its place in time tells. Imports tell nothing; where they alone arrived
    later, it may be so. Where nothing did, nothing says so.
    """
    columns = Report.run_kind, func.coalesce(Report.sent_at, Report.ordered_at)
    later = select(*columns).where(Report.received_at > now + TOLERATED_AHEAD, counts(Report))
    found = session.execute(later.order_by(Report.received_at.desc()).limit(_WITNESSES)).all()
    told = [is_foretold(at, now) for kind, at in found if kind != "import" and at is not None]
    return 2 * sum(told) > len(told) if told else bool(found)


def take_back(session: Session, population: Population, now: datetime) -> None:
    """
    Have all that was said of a device as of later times count as said now, in a transaction of the caller's.

    Its evaluations go, as the earlier ones of a day do; changes of verdicts, verdicts and alerts get the time.
    """
    course = of_population(StoredEvaluation, population) & StoredEvaluation.historical.is_(False)
    later = select(StoredEvaluation.id).where(course, StoredEvaluation.as_of > now)
    session.execute(delete(EvaluationColumns).where(EvaluationColumns.evaluation_id.in_(later)))
    session.execute(delete(StoredEvaluation).where(course, StoredEvaluation.as_of > now))
    changes = _is_of(VerdictChange, population) & VerdictChange.historical.is_(False) & (VerdictChange.as_of > now)
    _bring_back(session, changes, (VerdictChange.since, VerdictChange.made_at, VerdictChange.as_of), now)
    verdicts = of_population(CurrentVerdict, population)
    _bring_back(session, verdicts, (CurrentVerdict.since, CurrentVerdict.recorded_at), now)
    _bring_back(session, _is_of(Alert, population), (Alert.opened_at, Alert.last_seen, Alert.resolved_at), now)


def _is_of(table: type[VerdictChange | Alert], population: Population) -> ColumnElement[bool]:
    return (table.device_id == population.device_id) & table.simulated.is_(population.simulated)


def _bring_back(
    session: Session,
    chosen: ColumnElement[bool],
    times: tuple[InstrumentedAttribute[datetime | None], ...],
    now: datetime,
) -> None:
    """Put times of some rows that are later to now, the ones by which rows are chosen last."""
    for column in times:
        session.execute(update(column.class_).where(chosen, column > now).values({column: now}))
