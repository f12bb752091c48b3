"""From a stored evaluation to what answers say of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from fleetridge_server.answer.told_schemas import VerdictInShort, VerdictShown
from fleetridge_server.answer.verdict_schemas import GpuVerdict


class Evaluated(Protocol):
    """An evaluation: as of when it judged, when it was made, and by which rules."""

    @property
    def as_of(self) -> datetime: ...  # noqa: D102 # said above

    @property
    def made_at(self) -> datetime | None: ...  # noqa: D102 # said above

    @property
    def rule_version(self) -> int: ...  # noqa: D102 # said above


def evaluated_by(told: Evaluated | None, *, device: str, asked: datetime | None) -> dict[str, Any]:
    """
    Fields of an answer that say on which evaluation it rests.

    Args:
        told: the evaluation; None where none answers for the time.
        device: slug.
        asked: time that was asked for; None for now.
    """
    if told is None:
        return {
            "evaluated_as_of": None,
            "evaluated_at": None,
            "rule_version": None,
            "evaluation_note": _note(device, asked),
        }
    return {
        "evaluated_as_of": told.as_of,
        "evaluated_at": told.made_at,
        "rule_version": told.rule_version,
        "evaluation_note": None,
    }


def verdict_shown(since: datetime, verdict: GpuVerdict | VerdictInShort) -> VerdictShown:
    """A verdict in short."""
    return VerdictShown(
        state=verdict.state,
        last_state=verdict.last_state,
        since=since,
        text=verdict.text,
        loss=verdict.worst_loss,
        flags=verdict.flags,
        reasons=verdict.reasons,
        slow_since=verdict.slow_since,
        slow_since_is_bound=verdict.slow_since_is_bound,
    )


def _note(device: str, asked: datetime | None) -> str:
    if asked is None:
        return f"not evaluated yet; the server does so soon, or run `fleetridge-server evaluate --device {device}`"
    time = asked.strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"no evaluation is stored for that time; run `fleetridge-server evaluate --device {device} --as-of {time}`, "
        "which stores one, and ask again"
    )
