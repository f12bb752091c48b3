"""Shapes of what is said once of many gpus."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_server.answer.roof_schemas import LevelName, RoofName
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.verdict.notices import NoticeKind


@dataclass(frozen=True, slots=True)
class NoticeShown:
    """
    One sentence on a cohort or on the device.

    Attributes:
        effect, low, high: with the interval, as fractions, where there is one.
        gpus: how many it is about; `gpu_ids` names the first of them.
    """

    kind: NoticeKind
    text: str
    roof: RoofName | None
    conditions: Conditions | None
    effect: float | None
    low: float | None
    high: float | None
    levels: tuple[LevelName, ...]
    gpus: int
    gpu_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpgradeShown:
    """
    What a change of one factor did to the gpus that met it, each against itself.

    Attributes:
        n: gpus.
        effect: after over before, less 1 (Hodges–Lehmann on log ratios).
        low, high: its interval, of the given `confidence`: 95 %, or less where there are fewer than six gpus.
    """

    roof: RoofName
    unit: str
    factor: str
    before: str
    after: str
    n: int
    effect: float
    low: float
    high: float
    confidence: float
