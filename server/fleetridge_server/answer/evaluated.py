"""From a stored evaluation to what answers say of it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Protocol

from fleetridge_server.answer.evaluated_schemas import VerdictShown
from fleetridge_server.answer.verdict_schemas import GpuVerdict
from fleetridge_server.verdict.state import State


class Evaluated(Protocol):
    """An evaluation: as of when it judged, when it was made, and by which rules."""

    @property
    def as_of(self) -> datetime: ...  # noqa: D102 # said above

    @property
    def made_at(self) -> datetime | None: ...  # noqa: D102 # said above

    @property
    def rule_version(self) -> int: ...  # noqa: D102 # said above

    @property
    def has_verdicts(self) -> bool: ...  # noqa: D102 # whether numbers of single gpus are kept


class SummaryOfGpu(Protocol):
    """A verdict in a line."""

    @property
    def state(self) -> State: ...  # noqa: D102 # said above

    @property
    def last_state(self) -> State | None: ...  # noqa: D102 # said above

    @property
    def since(self) -> datetime: ...  # noqa: D102 # said above

    @property
    def loss(self) -> float | None: ...  # noqa: D102 # said above


def evaluated_by(evaluation: Evaluated | None, *, device: str, asked: datetime | None) -> dict[str, Any]:
    """
    Fields of an answer that say on which evaluation it rests.

    Args:
        evaluation: None where none answers for the time.
        device: slug.
        asked: time that was asked for; None for now.
    """
    if evaluation is None:
        none = dict.fromkeys(("evaluated_as_of", "evaluated_at", "rule_version"))
        return {**none, "evaluation_note": _note(device, asked)}
    return {
        "evaluated_as_of": evaluation.as_of,
        "evaluated_at": evaluation.made_at,
        "rule_version": evaluation.rule_version,
        "evaluation_note": None if evaluation.has_verdicts else _without_gpus(device, asked),
    }


def verdict_shown(since: datetime, verdict: GpuVerdict) -> VerdictShown:
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


def state_shown(summary: SummaryOfGpu) -> VerdictShown:
    """What is known of a verdict whose numbers are no longer kept."""
    return VerdictShown(
        state=summary.state,
        last_state=summary.last_state,
        since=summary.since,
        text="its numbers are no longer kept for that time",
        loss=summary.loss,
        flags=(),
        reasons=(),
    )


def _note(device: str, asked: datetime | None) -> str:
    if asked is None:
        return f"not evaluated yet; the server does so soon, or run `fleetridge-server evaluate --device {device}`"
    return f"no evaluation is stored for that time; {_remedy(device, asked)}"


def _without_gpus(device: str, asked: datetime | None) -> str:
    if asked is None:
        return "the numbers of single gpus are not kept"
    return f"the numbers of single gpus are no longer kept for that time; {_remedy(device, asked)}"


def _remedy(device: str, asked: datetime) -> str:
    time = asked.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return f"run `fleetridge-server evaluate --device {device} --as-of {time}`, which stores one, and ask again"
