"""What answers of several kinds say of an evaluation and of a verdict."""

from __future__ import annotations

from datetime import datetime

from fleetridge_server.answer.reason_schemas import ReasonShown
from fleetridge_server.answer.schemas import Answer
from fleetridge_server.answer.verdict_schemas import VerdictFlag
from fleetridge_server.verdict.state import State


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
