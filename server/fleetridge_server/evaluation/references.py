"""What gpus are held against: kept once for each group of an evaluation, found by a short key from every verdict."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from fleetridge.report import RoofKey
from fleetridge_server.answer.band_schemas import Band, CohortShown
from fleetridge_server.answer.roof_schemas import LevelName, RoofName
from fleetridge_server.compare.cohort import Cohort, Conditions
from fleetridge_server.verdict.levels import Level

# Nine bytes are twelve letters of base64, and among some dozens of groups no two are ever alike.
_KEY_BYTES = 9


@dataclass(frozen=True, slots=True)
class Reference:
    """
    What the gpus of one group are held against in one roof.

    Attributes:
        cohort: its number among the cohorts of the evaluation; group: its number within that.
    """

    roof: RoofName
    unit: str
    conditions: Conditions
    band: Band
    cohort: int
    group: int


References = Mapping[str, Reference]
"""By `reference_key`."""


def reference_key(roof: RoofKey | RoofName, conditions: Conditions, levels: Iterable[Level | LevelName]) -> str:
    """Key of a group: the same in every evaluation that has it."""
    name = (roof.kind, roof.dtype, roof.out_dtype, roof.fast_accumulation, roof.regime, roof.level, roof.kernel)
    shared = tuple(getattr(conditions, field) for field in Conditions.__dataclass_fields__)
    text = repr((name, shared, tuple((level.factor, level.name) for level in levels)))
    return base64.b85encode(blake2b(text.encode(), digest_size=_KEY_BYTES).digest()).decode()


def references_of(cohorts: Iterable[CohortShown]) -> dict[str, Reference]:
    """Reference of every group of an evaluation's cohorts."""
    return {
        reference_key(own.roof, own.conditions, band.levels): Reference(
            own.roof, own.unit, own.conditions, band, number, group
        )
        for number, own in enumerate(cohorts)
        for group, band in enumerate(own.bands)
    }


def cohort_of(shown: CohortShown) -> Cohort:
    """Key of a cohort as the engine has it."""
    roof = shown.roof
    key = RoofKey(**{name: getattr(roof, name) for name in RoofKey._fields})
    return Cohort(key, shown.conditions)
