"""What is not kept for ever, and taken away some rows at a time; summaries of reports are never among them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import CursorResult, delete, func, select, tuple_
from sqlalchemy.orm import Session

from fleetridge_server.store.models import Document, Report
from fleetridge_server.store.notification_models import Notification
from fleetridge_server.store.verdict_models import EvaluationColumns, StoredEvaluation


def newest_arrival(session: Session) -> datetime | None:
    """When the newest report arrived; None before the first."""
    return session.scalar(select(func.max(Report.received_at)))


def drop_documents(session: Session, before: datetime, most: int) -> int:
    """Drop some documents that arrived before a time, the oldest first; how many."""
    key = tuple_(Document.received_at, Document.report_id)
    oldest = select(Document.received_at, Document.report_id).where(Document.received_at < before)
    oldest = oldest.order_by(Document.received_at, Document.report_id).limit(most)
    return _count(session.execute(delete(Document).where(key.in_(oldest))))


def drop_notifications(session: Session, before: datetime, most: int) -> int:
    """Drop some messages to the webhook that were sent, or given up, before a time; how many."""
    oldest = select(Notification.id).where(Notification.ended_at < before).order_by(Notification.ended_at).limit(most)
    return _count(session.execute(delete(Notification).where(Notification.id.in_(oldest))))


def superseded_evaluations(session: Session, before: datetime) -> Sequence[int]:
    """Evaluations as of before a time that were not the last of their day."""
    found = select(
        StoredEvaluation.id, StoredEvaluation.device_id, StoredEvaluation.simulated, StoredEvaluation.as_of
    ).where(StoredEvaluation.historical.is_(False), StoredEvaluation.as_of < before)
    last: dict[tuple[object, ...], int] = {}
    superseded: list[int] = []
    for row in session.execute(found.order_by(StoredEvaluation.as_of, StoredEvaluation.id)):
        day = (row.device_id, row.simulated, row.as_of.date())
        if day in last:
            superseded.append(last[day])
        last[day] = row.id
    return superseded


def drop_evaluations(session: Session, evaluation_ids: Sequence[int]) -> int:
    """Drop some evaluations; how many there were."""
    session.execute(delete(EvaluationColumns).where(EvaluationColumns.evaluation_id.in_(evaluation_ids)))
    return _count(session.execute(delete(StoredEvaluation).where(StoredEvaluation.id.in_(evaluation_ids))))


def _count(result: Any) -> int:  # noqa: ANN401 # SQLAlchemy says less of it than it is
    return cast("CursorResult[Any]", result).rowcount
