"""The verdict on one gpu in a list, and which evaluation an answer is of."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Protocol

from fleetridge_server.engine.state import State
from fleetridge_server.verdicts.roof_shapes import Answer
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict, ReasonShown, VerdictFlag


class EvaluatedAnswer(Answer):
    """
    Base of answers with verdicts: as of when the evaluation judged, when it was made, and by which rules.

    Null where no evaluation answers for the time; `evaluation_note` then says what to do. `evaluated_at` alone is null
    where none was stored and this one was made for the answer.
    """

    evaluated_as_of: datetime | None
    evaluated_at: datetime | None
    rule_version: int | None
    evaluation_note: str | None


class VerdictShown(Answer):
    """
    What is said of one gpu, in short; `GET /gpus/{gpu_id}` has every number that it rests on.

    `state` is the first that holds, `last_state` what its runs say where measurements are missing or unusable; `since`
    is when it was said first, `slow_since` since when the gpu has been slow by its runs (with `slow_since_is_bound` or
    before); `loss` the largest over its judged roofs, as a fraction of what its peers reach.
    """

    state: State
    last_state: State | None
    since: datetime
    text: str
    loss: float | None
    flags: tuple[VerdictFlag, ...]
    reasons: tuple[ReasonShown, ...]
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False


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
