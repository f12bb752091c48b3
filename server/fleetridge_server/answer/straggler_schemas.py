"""Shapes of what a job loses to its slowest gpu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.compare.cohort import Conditions


@dataclass(frozen=True, slots=True)
class WithoutWorstShown:
    """The same job without its worst gpus; a negative `gain` where leaving them out costs more than it wins."""

    left_out: int
    rate: float
    gain: float


@dataclass(frozen=True, slots=True)
class StragglerShown:
    """
    What a synchronous job over a group loses to its slowest gpu in one roof.

    Attributes:
        scope: `device` for all its gpus, else `rack` or `node`.
        loss: part of the sum of all rates that waiting costs.
        without: the job without the worst 1, 2, … gpus; best: what wins most back, null where nothing does.
    """

    scope: Literal["device", "rack", "node"]
    cluster: str | None
    name: str | None
    roof: RoofName
    unit: str
    conditions: Conditions
    n: int
    slowest: float
    slowest_gpu_id: str
    loss: float
    without: tuple[WithoutWorstShown, ...]
    best: WithoutWorstShown | None
