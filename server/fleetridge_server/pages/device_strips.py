"""Strips of a device: the distance of every gpu from the median, and how one rate is distributed."""

from __future__ import annotations

from collections.abc import Iterable

from fleetridge.quantities import deviation
from fleetridge_server.answer.schemas import FleetRidge
from fleetridge_server.compare.roof_words import variant
from fleetridge_server.drawing.distribution import DistributionChart
from fleetridge_server.drawing.spread import Spread, of_distribution, of_quantiles, scaled
from fleetridge_server.drawing.strip_chart import GpuDeviation, Strip, StripChart
from fleetridge_server.pages.device_bands import RoofKey, key_of, level_note, only_band
from fleetridge_server.pages.device_subject import MANY_GPUS, Subject, largest, variant_words
from fleetridge_server.text.words import differing_conditions

# More strips than this are no longer a glance; a filter by dtype has the others.
_MOST_STRIPS = 8


def strip_chart(subject: Subject) -> StripChart:
    """
    Deviations of every gpu from the median of its peers: pi of each dtype, beta, and I* of one dtype.

    Of a large fleet pi of one dtype and beta; the filter by dtype has the others.
    """
    strips = (*_pi_strips(subject), *_beta_strips(subject), *_ridge_strips(subject))
    return StripChart("Distance of every gpu from the median", tuple(strip for strip in strips if strip.count))


def distribution_chart(subject: Subject) -> DistributionChart | None:
    """How pi of one dtype is distributed over the gpus; None where nothing was measured."""
    for ridge in largest(subject.answer.ridges):
        key = key_of(ridge)
        values = tuple(found.pi.own.value for _, found in subject.ridges.get(key, ()))
        crowd = _crowd(subject, key)
        if ridge.dtype == subject.dtype and (values or crowd is not None):
            band = only_band(subject.cohorts, key)
            return DistributionChart(
                title=f"How pi {variant(ridge.dtype, ridge.regime)} is distributed",
                unit="TFLOP/s",
                values=values,
                published=ridge.published.pi_tflops,
                lowest=None if band is None else band[1],
                crowd=None if crowd is None else (crowd, ridge.pi_tflops),
            )
    return None


def _pi_strips(subject: Subject) -> list[Strip]:
    answer = subject.answer
    strips = [
        _pi_strip(subject, ridge, conditions)
        for ridge, conditions in zip(answer.ridges, differing_conditions(answer.ridges), strict=True)
        if subject.listed <= MANY_GPUS or ridge.dtype == subject.dtype
    ]
    return sorted(strips, key=lambda strip: -strip.count)[:_MOST_STRIPS]


def _pi_strip(subject: Subject, ridge: FleetRidge, conditions: str) -> Strip:
    key, median = key_of(ridge), ridge.pi_tflops.median
    band, crowd = only_band(subject.cohorts, key), _crowd(subject, key)
    return Strip(
        label=f"pi {variant_words(ridge)} {ridge.regime}{conditions}",
        unit="TFLOP/s",
        median=median,
        gpus=tuple(GpuDeviation(gpu, own.pi.own.value, own.pi.deviation) for gpu, own in subject.ridges.get(key, ())),
        limit=None if band is None else band[0],
        published=ridge.published.pi_tflops,
        note=ridge.note or level_note(subject.cohorts, key),
        crowd=None if crowd is None else scaled(crowd, median),
    )


def _beta_strips(subject: Subject) -> Iterable[Strip]:
    """Bandwidths of the answer; where a filter leaves those out, those that its ridges rest on."""
    answer = subject.answer
    for own in answer.bandwidths:
        crowd = _crowd(subject, key_of(own))
        yield _beta_strip(subject, key_of(own), own.beta_gbps.median, own.published_beta_gbps, crowd, own.note)
    if not answer.bandwidths:
        yield from _betas_of_ridges(subject)


def _betas_of_ridges(subject: Subject) -> Iterable[Strip]:
    main = [ridge for ridge in subject.answer.ridges if ridge.dtype == subject.dtype and ridge.beta_gbps is not None]
    published = next((ridge.published.beta_gbps for ridge in main), None)
    for key in sorted(subject.betas, key=str):
        peers = subject.betas[key][0][1].cohort
        crowd = of_distribution(peers) if subject.quantiles else None
        yield _beta_strip(subject, key, peers.median, published, crowd, None)
    if subject.quantiles and not subject.betas:
        for beta in {ridge.beta_gbps for ridge in main if ridge.beta_gbps is not None}:
            crowd = scaled(of_distribution(beta), beta.median)
            yield Strip("beta", "GB/s", beta.median, (), published=published, crowd=crowd)


def _beta_strip(
    subject: Subject, key: RoofKey, median: float, published: float | None, crowd: Spread | None, note: str | None
) -> Strip:
    _, _, _, _, regime, kernel, _ = key
    band = only_band(subject.cohorts, key)
    return Strip(
        label=f"beta {kernel or 'any kernel'} {regime}",
        unit="GB/s",
        median=median,
        gpus=tuple(GpuDeviation(gpu, beta.own.value, beta.deviation) for gpu, beta in subject.betas.get(key, ())),
        limit=None if band is None else band[0],
        published=published,
        note=note or level_note(subject.cohorts, key),
        crowd=None if crowd is None else scaled(crowd, median),
    )


def _ridge_strips(subject: Subject) -> Iterable[Strip]:
    if subject.listed > MANY_GPUS:
        return
    for ridge in largest(subject.answer.ridges):
        middle = ridge.ridge_flop_per_byte
        if ridge.dtype != subject.dtype or middle is None:
            continue
        found = [(gpu, own.flop_per_byte) for gpu, own in subject.ridges.get(key_of(ridge), ())]
        yield Strip(
            label=f"I* {variant_words(ridge)} {ridge.regime}",
            unit="FLOP/byte",
            median=middle.median,
            gpus=tuple(
                GpuDeviation(gpu, value, deviation(value, middle.median)) for gpu, value in found if value is not None
            ),
            published=ridge.published.ridge_flop_per_byte,
            note="shown, not judged",
        )


def _crowd(subject: Subject, key: RoofKey) -> Spread | None:
    own = subject.quantiles.get(key)
    return None if own is None else of_quantiles(own.peers.n, own.quantiles)
