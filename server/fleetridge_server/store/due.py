"""
Which devices have something that no evaluation knows.

Noted by the transaction that stores it, so that nothing is forgotten whichever server takes the report and whichever
one evaluates. `take_due` deletes a note before the evaluation reads: whatever is stored later is noted anew.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from sqlalchemy import ColumnElement, Table, and_, delete, or_, select, tuple_, update
from sqlalchemy.orm import Session

from fleetridge_server.store.models import Gpu
from fleetridge_server.store.upserts import insert_ignoring
from fleetridge_server.store.verdict_models import EvaluationDue

_DUE = cast("Table", EvaluationDue.__table__)

# All calls of a device would wait for one another if each wrote the time of the last.
_FINENESS = timedelta(seconds=1)


class Population(NamedTuple):
    """The real or the made-up gpus of one device: what one evaluation judges."""

    device_id: int
    simulated: bool


def populations_of(session: Session, gpu_rows: Collection[int], node_rows: Collection[int]) -> set[Population]:
    """Populations of some gpus, and of the gpus of some nodes, by their rows."""
    query = select(Gpu.device_id, Gpu.simulated).where(or_(Gpu.id.in_(gpu_rows), Gpu.node_id.in_(node_rows))).distinct()
    return {Population(*row) for row in session.connection().execute(query)}


def note_due(session: Session, populations: Collection[Population], at: datetime) -> None:
    """
    Note that something arrived; the last thing that a transaction does.

    A note that is there is locked against deletion until the transaction ends, and not against others who find it.
    """
    if not populations:
        return
    chosen = tuple_(EvaluationDue.device_id, EvaluationDue.simulated).in_(sorted(populations))
    there = (
        select(EvaluationDue.device_id, EvaluationDue.simulated, EvaluationDue.latest)
        .where(chosen)
        .order_by(EvaluationDue.device_id, EvaluationDue.simulated)
        .with_for_update(read=True, key_share=True)
    )
    latest = {Population(row.device_id, row.simulated): row.latest for row in session.connection().execute(there)}
    new = sorted(set(populations) - latest.keys())
    if new:
        rows = [{**population._asdict(), "since": at, "latest": at} for population in new]
        session.execute(insert_ignoring(session, _DUE), rows)
    for population in sorted(latest):
        if at - latest[population] >= _FINENESS:
            session.execute(update(EvaluationDue).where(_is(population)).values(latest=at))


def take_due(session: Session, population: Population) -> None:
    """Delete the note on one population, before its reports are read."""
    session.execute(delete(EvaluationDue).where(_is(population)))


def due_notes(session: Session) -> dict[Population, EvaluationDue]:
    """All notes."""
    return {Population(note.device_id, note.simulated): note for note in session.scalars(select(EvaluationDue))}


def _is(population: Population) -> ColumnElement[bool]:
    return and_(EvaluationDue.device_id == population.device_id, EvaluationDue.simulated.is_(population.simulated))
