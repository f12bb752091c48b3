"""
Figures of a whole device, worked out once for all answers from what an evaluation judged.

Pure. They rest on the values that the verdicts rest on.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_server.engine.cohort import Cohort, cohort_order, is_judged
from fleetridge_server.engine.evaluation import Evaluation
from fleetridge_server.engine.ridge import Filter, best_betas, too_few
from fleetridge_server.engine.statistics import Distribution, distribution, distribution_of, percentiles
from fleetridge_server.verdicts.evaluation_shapes import CohortFigures, FleetFigures, cohort_of
from fleetridge_server.verdicts.roof_shapes import (
    FleetBandwidth,
    FleetRidge,
    published_beta_gbps,
    published_roofs,
    shape_of,
)
from fleetridge_server.verdicts.sentence import roof_name, unit_of

_Gpu = TypeVar("_Gpu", bound=Hashable)
_Fleet = tuple[tuple[FleetRidge, ...], tuple[FleetBandwidth, ...]]


def evaluated_figures(evaluation: Evaluation, device_name: str) -> FleetFigures:
    """The figures that an evaluation stores; of a cohort that nobody was measured in lately from earlier values."""
    cohorts = {cohort: evaluation.cohorts[cohort] for cohort in evaluation.cohorts if is_judged(cohort.roof)}
    counted = {
        cohort: [member for member in members if member.in_window] or members for cohort, members in cohorts.items()
    }
    quantiles = {cohort: percentiles([member.value for member in own]) for cohort, own in counted.items()}
    peers = {cohort: distribution_of(quantiles[cohort], len(own)) for cohort, own in counted.items()}
    betas = {
        cohort: {member.gpu_id: member.value for member in members}
        for cohort, members in cohorts.items()
        if cohort.roof.kind == "memory"
    }
    order = sorted(counted, key=cohort_order)
    return FleetFigures(
        ridges=tuple(
            _fleet_ridge(
                cohort,
                peers[cohort],
                _pairs(cohort, ((member.gpu_id, member.value) for member in counted[cohort]), betas),
                device_name,
            )
            for cohort in order
            if cohort.roof.kind == "compute"
        ),
        bandwidths=tuple(_fleet_bandwidth(cohort, peers[cohort], device_name) for cohort in order if cohort in betas),
        cohorts=tuple(_cohort_figures(cohort, peers[cohort], quantiles[cohort]) for cohort in order),
    )


def filtered_figures(figures: FleetFigures, only: Filter) -> _Fleet:
    """Those of the figures that a filter takes."""
    return (
        tuple(own for own in figures.ridges if only.takes_roof(own)),
        tuple(own for own in figures.bandwidths if only.takes_roof(own)),
    )


def peers_of(figures: FleetFigures) -> dict[Cohort, Distribution]:
    """What a gpu is compared with in each cohort."""
    return {cohort_of(own): own.peers for own in figures.cohorts}


def _pairs(
    pi: Cohort, rates: Iterable[tuple[_Gpu, float]], values: Mapping[Cohort, Mapping[_Gpu, float]]
) -> Iterator[tuple[float, float | None]]:
    """Rate of each gpu, and its bandwidth that goes best with it."""
    best = best_betas(pi, values)
    for gpu, rate in rates:
        found = best(gpu)
        yield rate, None if found is None else found[1]


def _cohort_figures(cohort: Cohort, peers: Distribution, quantiles: tuple[float, ...]) -> CohortFigures:
    return CohortFigures(
        roof=roof_name(cohort.roof),
        unit=unit_of(cohort.roof),
        conditions=cohort.conditions,
        peers=peers,
        quantiles=quantiles,
    )


def _fleet_ridge(
    cohort: Cohort, pi: Distribution, pairs: Iterable[tuple[float, float | None]], device_name: str
) -> FleetRidge:
    fitting = [(own, beta) for own, beta in pairs if beta is not None]
    beta = _distribution_or_none([beta for _, beta in fitting])
    published = published_roofs(device_name, cohort.roof.dtype, cohort.conditions)
    return shape_of(
        FleetRidge,
        cohort.roof,
        conditions=cohort.conditions,
        peers=pi.n,
        note=too_few(pi.n),
        pi_tflops=pi,
        beta_gbps=beta,
        ridge_flop_per_byte=_distribution_or_none([ridge_flop_per_byte(*pair) for pair in fitting]),
        published=published,
        pi_share_of_published=_share(pi, published.pi_tflops),
        beta_share_of_published=_share(beta, published.beta_gbps),
    )


def _fleet_bandwidth(cohort: Cohort, beta: Distribution, device_name: str) -> FleetBandwidth:
    published = published_beta_gbps(device_name, cohort.conditions)
    return shape_of(
        FleetBandwidth,
        cohort.roof,
        conditions=cohort.conditions,
        peers=beta.n,
        note=too_few(beta.n),
        beta_gbps=beta,
        published_beta_gbps=published,
        share_of_published=_share(beta, published),
    )


def _distribution_or_none(values: Sequence[float]) -> Distribution | None:
    return distribution(values) if values else None


def _share(measured: Distribution | None, published: float | None) -> float | None:
    return None if measured is None or published is None else measured.median / published
