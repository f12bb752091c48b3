"""
Shapes of the verdict on one gpu.

What is stored is the JSON of these shapes, so that a read is one row and nothing is computed again; and every number
that a verdict rests on is in them, so that it can be recomputed by hand. The parts that a gpu has many of are plain
dataclasses, since a fleet has millions of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fleetridge_server.answer.drift_schemas import DriftShown
from fleetridge_server.answer.judged_roof_schemas import JudgedRoof
from fleetridge_server.answer.reason_schemas import ReasonShown
from fleetridge_server.answer.schemas import Answer
from fleetridge_server.record import json_record
from fleetridge_server.verdict.marks import MarkKind
from fleetridge_server.verdict.remedies import ReasonCode
from fleetridge_server.verdict.state import State

VerdictFlag = Literal["excused", "identity_conflict", "intermittent", "retest"]


@json_record
class ExcuseShown:
    """A mark without which the state would be another; `mark_id` is null where it is not stored."""

    mark_id: int | None
    kind: MarkKind
    reason: str
    made_at: datetime
    until: datetime | None


class GpuVerdict(Answer):
    """
    What is said of one gpu, with everything that it rests on.

    `state` is the first that holds of `missing`, `unmeasured`, `stale`, `contended`, `implausible`, `outlier`,
    `drifted`, `suspect`, `insufficient_peers`, `ok`; `last_state` is what its runs say where the state is about missing
    or unusable measurements. `reason` is the code of the first of `reasons`: what the gpu shares with its whole node or
    rack, else a cause where there is one. `worst_loss` is the largest loss over its judged roofs. `slow_since` is since
    when the gpu has been slow in the roof that `text` is about, by its runs and not by when somebody looked (with
    `slow_since_is_bound` since then or before); null for a gpu that is not accused. `measured_at` is the time of its
    newest measurement, whatever came of it.
    """

    gpu_id: str
    state: State
    last_state: State | None
    text: str
    reason: ReasonCode | None
    worst_loss: float | None
    flags: tuple[VerdictFlag, ...]
    reasons: tuple[ReasonShown, ...]
    roofs: tuple[JudgedRoof, ...]
    links: tuple[JudgedRoof, ...]
    drifts: tuple[DriftShown, ...]
    excuses: tuple[ExcuseShown, ...]
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False
    measured_at: datetime | None = None
