"""What the gpus of a chart are held against: the band of their cohort, where it is one for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from fleetridge_server.answer.band_schemas import CohortShown
from fleetridge_server.answer.schemas import FleetBandwidth, FleetRidge
from fleetridge_server.compare.cohort import Cohort, Conditions
from fleetridge_server.pages.words import state_word

RoofKey = tuple[str, str, str | None, bool | None, str, str | None, Conditions]
"""By what gpus may be compared at the level of the device: kind, dtype and variant, regime, kernel, conditions."""


def key_of(figures: FleetRidge | FleetBandwidth) -> RoofKey:
    """Key of the figures of an answer."""
    if isinstance(figures, FleetBandwidth):
        return "memory", figures.dtype, None, None, figures.regime, figures.kernel, figures.conditions
    variant = figures.out_dtype, figures.fast_accumulation
    return "compute", figures.dtype, *variant, figures.regime, figures.kernel, figures.conditions


def key_of_cohort(cohort: Cohort) -> RoofKey:
    """Key of a gpu's cohort."""
    roof = cohort.roof
    variant = (roof.out_dtype, roof.fast_accumulation) if roof.kind == "compute" else (None, None)
    return roof.kind, roof.dtype, *variant, roof.regime, roof.kernel, cohort.conditions


def only_band(cohorts: Iterable[CohortShown], key: RoofKey) -> tuple[float, float] | None:
    """Limit and lowest value of a group that is judged as one; None for any other."""
    cohort = _cohort_of(cohorts, key)
    if cohort is None or len(cohort.bands) != 1 or cohort.bands[0].note is not None:
        return None
    return cohort.bands[0].limit, cohort.bands[0].lowest


def level_note(cohorts: Iterable[CohortShown], key: RoofKey) -> str:
    """Among which gpus each is judged, where that is not all of them."""
    cohort = _cohort_of(cohorts, key)
    if cohort is None or len(cohort.bands) == 1:
        return ""
    factors = sorted({level.factor for band in cohort.bands for level in band.levels})
    return f"each gpu is judged among those with its own {' and '.join(map(state_word, factors))}"


def _cohort_of(cohorts: Iterable[CohortShown], key: RoofKey) -> CohortShown | None:
    return next((own for own in cohorts if own.roof.level == "device" and _key_shown(own) == key), None)


def _key_shown(own: CohortShown) -> RoofKey:
    roof = own.roof
    variant = (roof.out_dtype, roof.fast_accumulation) if roof.kind == "compute" else (None, None)
    return roof.kind, roof.dtype, *variant, roof.regime, roof.kernel, own.conditions
