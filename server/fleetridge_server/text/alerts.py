"""Alerts and marks as text."""

from __future__ import annotations

from fleetridge.quantities import MISSING, percent
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.alert_schemas import AlertList, AlertShown, MarkList, MarkShown
from fleetridge_server.text.words import ago, at, blocks, lines, more_follows

_MARKS = (
    Column("mark"),
    Column("kind", align="left"),
    Column("covers", align="left"),
    Column("loss"),
    Column("until", align="left"),
    Column("by", align="left"),
    Column("reason", align="left"),
)


def alert_list(answer: AlertList) -> str:
    """Each alert in a sentence with how long it has been open."""
    if not answer.alerts:
        return "no alerts"
    return blocks(
        lines([f"alerts as of {at(answer.as_of)}, the newest first"]),
        *(lines([_alert(alert, answer)]) for alert in answer.alerts),
        more_follows(answer.next, "alerts"),
    )


def mark_list(answer: MarkList) -> str:
    """Marks in a table."""
    if not answer.marks:
        return "no marks"
    rows = [_mark(mark) for mark in answer.marks]
    return blocks(
        text_table(_MARKS, rows, title=f"marks as of {at(answer.as_of)}, the newest first"),
        more_follows(answer.next, "marks"),
    )


def _alert(alert: AlertShown, answer: AlertList) -> str:
    if alert.resolved_at is None:
        state = f"open for {ago(alert.opened_at, answer.as_of)}"
    else:
        state = f"open from {at(alert.opened_at)} to {at(alert.resolved_at)}"
    return f"{alert.id} {alert.kind} ({alert.device}), {state}: {alert.summary}"


def _mark(mark: MarkShown) -> list[str]:
    scope = [word for word in (mark.gpu_id, mark.node, mark.rack, mark.cluster) if word is not None]
    end = mark.until if mark.ended_at is None else mark.ended_at
    return [
        str(mark.id),
        mark.kind.replace("_", " "),
        ", ".join(scope),
        MISSING if mark.loss is None else percent(mark.loss),
        "for ever" if end is None else at(end).removesuffix(" UTC"),
        mark.author,
        mark.reason,
    ]
