"""
Which reports conflict with those of another node, kept with them by the transactions that change it.

The rule is `verdict.identities`; few gpus were ever reported by more than one node, and only theirs are looked at.
Reports in quarantine claim nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import cast
from uuid import UUID

from sqlalchemy import ColumnElement, Table, bindparam, select, update
from sqlalchemy.orm import Session

from fleetridge_server.store.counting import counts
from fleetridge_server.store.models import Gpu, Report
from fleetridge_server.verdict.identities import MOVING_TAKES, Claim, conflicts

_REPORTS = cast("Table", Report.__table__)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A new report of a gpu: the gpu's row and the report's ordering time."""

    gpu_row: int
    ordered_at: datetime


def note_conflicts(session: Session, seen: Iterable[Sighting]) -> set[int]:
    """
    Note what new reports conflict with; the caller has locked the gpus and stored the reports.

    Only gpus of `several_nodes` need be asked about.

    Returns:
        Rows of the gpus of which some report conflicts that did not before.
    """
    times: dict[int, list[datetime]] = defaultdict(list)
    for own in seen:
        times[own.gpu_row].append(own.ordered_at)
    changed = set()
    for gpu_row in sorted(times):
        first, last = min(times[gpu_row]) - MOVING_TAKES, max(times[gpu_row]) + MOVING_TAKES
        found = _kept(session, gpu_row, Report.ordered_at.between(first, last))
        # What lies near the ends may conflict with something beyond them, so that nothing known is taken back here.
        new: dict[UUID, datetime | None] = {
            report_id: known_from
            for report_id, known_from in conflicts(found.claims).items()
            if (known := found.known[report_id]) is None or known_from < known
        }
        if new:
            _write(session, new)
            changed.add(gpu_row)
    return changed


def renew_conflicts(session: Session, gpu_rows: Collection[int]) -> None:
    """Work out anew what conflicts among all reports of some gpus; the caller has locked them."""
    for gpu_row in _with_several_nodes(session, gpu_rows):
        found = _kept(session, gpu_row)
        now = conflicts(found.claims)
        _write(
            session,
            {report_id: now.get(report_id) for report_id, known in found.known.items() if now.get(report_id) != known},
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """Claims on one gpu, oldest first, and what is noted of each."""

    claims: list[Claim[UUID]]
    known: dict[UUID, datetime | None]


def _with_several_nodes(session: Session, gpu_rows: Iterable[int]) -> list[int]:
    rows = sorted(gpu_rows)
    return list(session.scalars(select(Gpu.id).where(Gpu.id.in_(rows), Gpu.several_nodes).order_by(Gpu.id)))


def _kept(session: Session, gpu_row: int, *chosen: ColumnElement[bool]) -> _Kept:
    query = (
        select(Report.id, Report.node_id, Report.ordered_at, Report.conflict_from)
        .where(
            Report.gpu_id == gpu_row,
            Report.ordered_at.is_not(None),
            Report.node_id.is_not(None),
            counts(Report),
            *chosen,
        )
        .order_by(Report.ordered_at)
    )
    rows = session.execute(query).all()
    return _Kept(
        claims=[Claim(row.id, row.node_id, row.ordered_at) for row in rows],
        known={row.id: row.conflict_from for row in rows},
    )


def _write(session: Session, known_from: dict[UUID, datetime | None]) -> None:
    if known_from:
        statement = update(_REPORTS).where(_REPORTS.c.id == bindparam("key")).values(conflict_from=bindparam("at"))
        session.execute(statement, [{"key": report_id, "at": at} for report_id, at in known_from.items()])
