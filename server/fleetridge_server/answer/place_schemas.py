"""Shapes of nodes and racks that are slow as a whole, and of what is missing from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleetridge_server.answer.reason_schemas import FactShown
from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.verdict.remedies import ReasonCode


@dataclass(frozen=True, slots=True)
class SlowPlace:
    """
    A node or a rack all of whose gpus are slow in one roof.

    Attributes:
        loss: median over its gpus.
        roofs: all in which the place is slow, worst first.
        slow_since: median over its accused gpus of since when each is slow; with `slow_since_is_bound` or before.
        cause: code of what most of its gpus have in common, null where there is nothing; cause_text: in words, with
            how many of them; facts: medians of the readings that it rests on; next_step: for the place.
    """

    cluster: str
    name: str
    roof: RoofName
    conditions: Conditions
    loss: float
    gpus: int
    gpu_ids: tuple[str, ...]
    roofs: tuple[RoofName, ...] = ()
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False
    cause: ReasonCode | None = None
    cause_text: str | None = None
    facts: tuple[FactShown, ...] = ()
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class AbsenceShown:
    """What is missing from a node; `unnamed` counts those that nobody has ever seen."""

    cluster: str
    node: str
    gpu_ids: tuple[str, ...]
    unnamed: int
    never_reported: bool
