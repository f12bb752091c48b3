"""Shapes of what gpus are held against."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_server.answer.roof_schemas import LevelName, RoofName
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.record import json_record
from fleetridge_server.verdict.scale import ScaleSource


@json_record
class Band:
    """
    What the gpus of one group are held against.

    With `scale` = max(1.4826·b_n·MAD, floor·median), pooled over the levels where the cohort has them:
    limit = min(max(gate, 3.5·scale/median), 10 %), without the 10 % in a `wide` cohort. A gpu is beyond it where
    1 - value/median > limit, which is below `lowest`.

    Attributes:
        n: gpus behind the median.
        median, scale, lowest: in the unit of the roof.
        scale_source: `mad` where the values gave it, `floor` where the floor is larger.
        degrees: of freedom of Student's t for p; null where p is from the normal distribution.
        pooled_n: gpus behind the scale.
        floor, gate, limit: as fractions of the median.
        levels: by which the cohort was split.
        of_faster_half: whether the median is that of the faster half of the values, as the slower half lies apart.
        note: why there is no verdict, if there is none.
    """

    n: int
    median: float
    scale: float
    scale_source: ScaleSource
    degrees: float | None
    pooled_n: int
    floor: float
    gate: float
    limit: float
    lowest: float
    wide: bool
    levels: tuple[LevelName, ...]
    note: str | None
    of_faster_half: bool = False


@dataclass(frozen=True, slots=True)
class CohortShown:
    """Gpus that may be compared in one roof, with the band of each of its groups; more than one where it has steps."""

    roof: RoofName
    unit: str
    conditions: Conditions
    n: int
    bands: tuple[Band, ...]
