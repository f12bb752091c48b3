"""Alerts and marks."""

from datetime import datetime
from typing import Any, Literal

from fleetridge_server.db.verdict_tables import Alert, StoredMark
from fleetridge_server.engine.gpu_state import MarkKind
from fleetridge_server.verdicts.roof_shapes import Answer, shape_of


class AlertShown(Answer):
    """
    Something that an evaluation found wrong, until one found it well again.

    `kind` is `gpu`, `node` or `rack` (slow as a whole), `cohort` (slower as a whole) or `missing`; `subject` what it is
    about. Times are those as of which the evaluations judged; `resolved_at` is null while it is open. `details` holds
    what programs want to know besides: `gpus`, `gpu_ids`, `roofs`, `loss`, `reason`, as far as there is such a thing.
    `state` is that of the gpu or a word for what is wrong; `silenced` of what somebody repairs until
    `details.silenced_until`: it stays open, and nobody is told of it (`details.said` is what it would be called).
    """

    id: int
    kind: str
    state: str
    device: str
    cluster: str | None
    node: str | None
    rack: str | None
    gpu_id: str | None
    subject: str
    summary: str
    details: dict[str, Any]
    opened_at: datetime
    last_seen: datetime
    resolved_at: datetime | None


class AlertList(Answer):
    """Alerts, the newest first."""

    as_of: datetime
    alerts: tuple[AlertShown, ...]
    next: str | None


class MarkShown(Answer):
    """
    What a person decided about accusations.

    `known` (being repaired), `false_positive` and `accepted` excuse a loss up to `loss` (any, where that is null) and
    what counts as a difference, and whoever they excuse is `known`; `retired` takes gpus out of the fleet. It holds
    from `made_at` until `until` or `ended_at`, whichever is earlier, for what fits all of `gpu_id`, `cluster`, `node`,
    `rack` and `driver` (of the newest report) that are given.
    """

    id: int
    kind: MarkKind
    reason: str
    author: str
    gpu_id: str | None
    cluster: str | None
    node: str | None
    rack: str | None
    driver: str | None
    loss: float | None
    made_at: datetime
    until: datetime | None
    ended_at: datetime | None
    state: Literal["holds", "ended"]


class MarkList(Answer):
    """Marks, the newest first."""

    as_of: datetime
    marks: tuple[MarkShown, ...]
    next: str | None


def alert_shown(alert: Alert, device: str) -> AlertShown:
    """An alert, with the name of its device."""
    return shape_of(AlertShown, alert, device=device, gpu_id=alert.gpu)


def mark_shown(mark: StoredMark, now: datetime) -> MarkShown:
    """A mark, and whether it holds at a time."""
    ends = [end for end in (mark.until, mark.ended_at) if end is not None]
    return shape_of(MarkShown, mark, gpu_id=mark.gpu, state="ended" if ends and min(ends) <= now else "holds")
