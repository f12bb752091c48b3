"""From stored alerts and marks to the shapes of the answers."""

from __future__ import annotations

from datetime import datetime

from fleetridge_server.answer.alert_schemas import AlertShown, MarkShown
from fleetridge_server.store.verdict_models import Alert, StoredMark


def alert_shown(alert: Alert, device: str) -> AlertShown:
    """An alert, with the name of its device."""
    return AlertShown(
        id=alert.id,
        kind=alert.kind,
        state=alert.state,
        device=device,
        cluster=alert.cluster,
        node=alert.node,
        rack=alert.rack,
        gpu_id=alert.gpu,
        subject=alert.subject,
        summary=alert.summary,
        details=alert.details,
        opened_at=alert.opened_at,
        last_seen=alert.last_seen,
        resolved_at=alert.resolved_at,
    )


def mark_shown(mark: StoredMark, now: datetime) -> MarkShown:
    """A mark, and whether it holds at a time."""
    ends = [end for end in (mark.until, mark.ended_at) if end is not None]
    return MarkShown(
        id=mark.id,
        kind=mark.kind,
        reason=mark.reason,
        author=mark.author,
        gpu_id=mark.gpu,
        cluster=mark.cluster,
        node=mark.node,
        rack=mark.rack,
        loss=mark.loss,
        made_at=mark.made_at,
        until=mark.until,
        ended_at=mark.ended_at,
        state="ended" if ends and min(ends) <= now else "holds",
    )
