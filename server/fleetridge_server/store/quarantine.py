"""
Quarantine: all reports of a token out of everything that is said, and back.

First the token's own row says so: whatever is stored with it from then on is in quarantine. Then what is stored
already follows, some gpus at a time; each gpu's reports and its row change together, so that whoever
reads sees it either with them or without. Whoever is interrupted goes on by doing the same again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, Select, Table, and_, false, select, true, update
from sqlalchemy.orm import Session, aliased

from fleetridge_server.store.claims import renew_conflicts
from fleetridge_server.store.coverage import renew_measured_at
from fleetridge_server.store.due import note_due, populations_of
from fleetridge_server.store.models import Report
from fleetridge_server.store.renewing import lock_gpus, lock_nodes, renew_gpus, renew_nodes
from fleetridge_server.store.token_models import StoredToken
from fleetridge_server.store.tokens import locked_token, shared_token

_REPORTS = cast("Table", Report.__table__)

# Some thousand reports: a second in which nobody can report these gpus.
GPUS_AT_ONCE = 10

# Reports about nodes as a whole; each names a node whose row is renewed.
_REPORTS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """
    What one step moved.

    Attributes:
        reports: how many.
        last_gpu: row of the last gpu; None where the step was about nodes.
        is_last: whether nothing is left.
    """

    reports: int
    last_gpu: int | None
    is_last: bool


def quarantine_token(session: Session, token_id: int, since: datetime | None, at: datetime) -> StoredToken:
    """
    Put a token into quarantine; reports that arrived before `since` (None for none) go on counting.

    Raises:
        UnknownTokenError: there is none.
    """
    token = locked_token(session, token_id)
    token.quarantined_at, token.quarantined_since = at, since
    return token


def release_token(session: Session, token_id: int) -> StoredToken:
    """
    Take a token out of quarantine.

    Raises:
        UnknownTokenError: there is none.
    """
    token = locked_token(session, token_id)
    token.quarantined_at, token.quarantined_since = None, None
    return token


def move_some(session: Session, token_id: int, *, after_gpu: int, at: datetime) -> Moved:
    """
    Let some stored reports of a token follow it into quarantine, or out of it, in a transaction of the caller's.

    Args:
        session: to write in.
        token_id: row of the token.
        after_gpu: row of the gpu that the step before ended with; 0 at first.
        at: the time, for the evaluations that follow.
    """
    token = shared_token(session, token_id)
    report = aliased(Report)
    misplaced = and_(report.token_id == token_id, report.quarantined != _belongs_in_quarantine(token, report))
    query = select(report.gpu_id).where(misplaced, report.gpu_id > after_gpu).distinct()
    gpu_rows = [row for row in session.scalars(query.order_by(report.gpu_id).limit(GPUS_AT_ONCE)) if row is not None]
    if gpu_rows:
        of_gpus = select(report.id).where(misplaced, report.gpu_id.in_(gpu_rows))
        return Moved(_moved(session, token, of_gpus, gpu_rows, at), gpu_rows[-1], is_last=False)
    of_nodes = select(report.id).where(misplaced, report.gpu_id.is_(None)).order_by(report.id).limit(_REPORTS_AT_ONCE)
    moved = _moved(session, token, of_nodes, [], at)
    return Moved(moved, None, is_last=moved < _REPORTS_AT_ONCE)


def _belongs_in_quarantine(token: StoredToken, report: type[Report]) -> ColumnElement[bool]:
    if token.quarantined_at is None:
        return false()
    return true() if token.quarantined_since is None else report.received_at >= token.quarantined_since


def _moved(session: Session, token: StoredToken, reports: Select[Any], gpu_rows: list[int], at: datetime) -> int:
    """Move some reports, and bring all that rests on them up to date; how many they are."""
    node_rows = _nodes_of(session, reports)
    nodes, gpus = lock_nodes(session, node_rows), lock_gpus(session, gpu_rows)
    before = populations_of(session, gpu_rows, node_rows)
    belongs = _belongs_in_quarantine(token, Report)
    moving = update(_REPORTS).where(_REPORTS.c.id.in_(reports)).values(quarantined=belongs, conflict_from=None)
    moved = cast("CursorResult[Any]", session.execute(moving)).rowcount
    renew_nodes(session, nodes)
    renew_gpus(session, gpus)
    renew_conflicts(session, gpu_rows)
    renew_measured_at(session, gpu_rows)
    note_due(session, before | populations_of(session, gpu_rows, node_rows), at)
    return moved


def _nodes_of(session: Session, reports: Select[Any]) -> list[int]:
    query = select(Report.node_id).where(Report.id.in_(reports), Report.node_id.is_not(None)).distinct()
    return [row for row in session.scalars(query) if row is not None]
