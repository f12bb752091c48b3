"""Shapes of a comparison: before against after, and group against group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleetridge_server.answer.notice_schemas import UpgradeShown
from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.answer.schemas import Answer, DeviceName
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.compare.stats import Distribution


@dataclass(frozen=True, slots=True)
class GroupShown:
    """
    Gpus that share a level.

    Attributes:
        level: as people write it; `unknown` where no reading says.
        values: in the unit of the roof.
        effect: median over that of the reference, less 1, with its 95 % interval; null for the reference itself and
            where one of the two has fewer than four gpus, as `note` says.
    """

    level: str
    values: Distribution
    effect: float | None
    low: float | None
    high: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class RoofComparison:
    """
    One cohort, compared.

    Attributes:
        kind: `paired` where gpus met a change of the factor themselves and each is compared with itself; else
            `between_groups`, where differences between the gpus and their nodes count too.
        paired: effects of the newest change.
        reference: level of the largest group.
        groups: the largest first; left_out: how many more there are.
    """

    kind: str
    roof: RoofName
    unit: str
    conditions: Conditions
    paired: tuple[UpgradeShown, ...]
    reference: str
    groups: tuple[GroupShown, ...]
    left_out: int


class Comparison(Answer):
    """
    What a setting, a version or a place does to a device's gpus.

    Pairs are those of the newest evaluation (`evaluated_as_of`, null before the first), groups those of now.
    """

    device: DeviceName
    as_of: datetime
    by: str
    evaluated_as_of: datetime | None
    roofs: tuple[RoofComparison, ...]
