"""The charts of a device's page: roofline, strips, distribution."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetridge.dtypes import DTYPES
from fleetridge.quantities import deviation
from fleetridge.workloads import place, reference_workloads
from fleetridge_server.api.devices import RidgeRead
from fleetridge_server.engine.cohort import Cohort, Conditions
from fleetridge_server.engine.ridge import Compared, GpuRoofs, Ridge
from fleetridge_server.engine.wording import variant
from fleetridge_server.responses.device import DeviceRidge
from fleetridge_server.responses.verdict import ListedGpu
from fleetridge_server.text.words import differing_conditions
from fleetridge_server.verdicts.evaluation_shapes import CohortFigures
from fleetridge_server.verdicts.roof_shapes import FleetBandwidth, FleetRidge
from fleetridge_server.verdicts.stored import VerdictSummary
from fleetridge_server.verdicts.verdict_shapes import CohortShown
from fleetridge_server.web.charts.distribution import DistributionChart, Spread, of_distribution, of_quantiles, scaled
from fleetridge_server.web.charts.roofline_curves import FleetRoof, GpuRoof, PublishedPi, RooflineChart, WorkloadMark
from fleetridge_server.web.charts.strip_marks import GpuDeviation, Strip, StripChart
from fleetridge_server.web.charts.symbols import DrawnGpu
from fleetridge_server.web.rendering import Links
from fleetridge_server.web.words import gpu_label, state_word

RoofKey = tuple[str, str, str | None, bool | None, str, str | None, Conditions]
"""By what gpus may be compared at the level of the device: kind, dtype and variant, regime, kernel, conditions."""


def key_of(figures: FleetRidge | FleetBandwidth) -> RoofKey:
    """Key of the figures of an answer."""
    if isinstance(figures, FleetBandwidth):
        return "memory", figures.dtype, None, None, figures.regime, figures.kernel, figures.conditions
    variant = figures.out_dtype, figures.fast_accumulation
    return "compute", figures.dtype, *variant, figures.regime, figures.kernel, figures.conditions


def key_of_cohort(own: Cohort | CohortShown | CohortFigures) -> RoofKey:
    """Key of a cohort, of the engine or of an answer."""
    roof = own.roof
    variant = (roof.out_dtype, roof.fast_accumulation) if roof.kind == "compute" else (None, None)
    return roof.kind, roof.dtype, *variant, roof.regime, roof.kernel, own.conditions


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
    return next((own for own in cohorts if own.roof.level == "device" and key_of_cohort(own) == key), None)


# What most models are served in comes first.
_PREFERRED = ("bfloat16", "float16")


def usual_dtype(found: Sequence[str]) -> str | None:
    """Of some dtypes the one that most models are served in, else the first."""
    return next((dtype for dtype in _PREFERRED if dtype in found), found[0] if found else None)


# From here on a page has strips of one dtype alone: each costs as much time as its gpus are many.
MANY_GPUS = 1000

# Bars stand for the healthy gpus of so many, and name none of them.
_ANYBODY = DrawnGpu("gpu", "ok")


@dataclass(frozen=True, slots=True)
class DeviceCharts:
    """
    What the charts of a device are made from.

    Attributes:
        answer: about the device.
        links: of the page.
        listed: gpus that the filters take, of which a large fleet's charts have the accused ones alone.
        drawn: how many they have.
        ridges, betas: of the gpus to draw, worst first, by what they are compared in.
        quantiles: of a large fleet's gpus.
        cohorts: that are judged, whatever the filters take.
    """

    answer: DeviceRidge
    links: Links
    listed: int
    drawn: int
    ridges: Mapping[RoofKey, Sequence[tuple[DrawnGpu, Ridge]]]
    betas: Mapping[RoofKey, Sequence[tuple[DrawnGpu, Compared]]]
    quantiles: Mapping[RoofKey, CohortFigures]
    cohorts: Sequence[CohortShown]

    @property
    def dtype(self) -> str | None:
        """Dtype that single charts are about; None where nothing was measured."""
        return usual_dtype([ridge.dtype for ridge in self.answer.ridges])


def device_charts(read: RidgeRead, links: Links) -> DeviceCharts:
    """What charts are made from."""
    ridges: dict[RoofKey, list[tuple[DrawnGpu, Ridge]]] = defaultdict(list)
    betas: dict[RoofKey, list[tuple[DrawnGpu, Compared]]] = defaultdict(list)
    drawn_of, ref = read.gpus.drawn, read.gpus.ref
    are_many = len(drawn_of.gpus) > MANY_GPUS
    for gpu in drawn_of.gpus:
        summary = drawn_of.summaries.get(gpu.location.gpu_id)
        is_plain = are_many and (summary is None or summary.state == "ok")
        drawn = _ANYBODY if is_plain else _drawn(gpu, summary, links)
        for ridge in gpu.roofs.ridges:
            ridges[key_of_cohort(ridge.pi.own.cohort)].append((drawn, ridge))
        for key, beta in _betas(gpu.roofs).items():
            betas[key].append((drawn, beta))
    return DeviceCharts(
        answer=read.answer,
        links=links,
        listed=drawn_of.listed,
        drawn=len(drawn_of.gpus),
        ridges=ridges,
        betas=betas,
        quantiles={key_of_cohort(own): own for own in drawn_of.quantiles},
        cohorts=() if ref is None else ref.body.cohorts,
    )


def largest(ridges: Sequence[FleetRidge]) -> list[FleetRidge]:
    """Of the groups that share a roof the one with most gpus, in the order of the answer."""
    found: dict[tuple[object, ...], FleetRidge] = {}
    for ridge in ridges:
        roof = (ridge.dtype, ridge.out_dtype, ridge.fast_accumulation, ridge.regime)
        if roof not in found or ridge.peers > found[roof].peers:
            found[roof] = ridge
    return list(found.values())


def variant_words(ridge: FleetRidge) -> str:
    """Dtype of a ridge with its variant, without its regime."""
    return variant(ridge.dtype, "unspecified", ridge.out_dtype, fast_accumulation=ridge.fast_accumulation)


def _betas(roofs: GpuRoofs) -> dict[RoofKey, Compared]:
    """Bandwidths of a gpu; those that its ridges rest on stay, whatever dtype or regime a filter takes."""
    of_ridges = (ridge.beta for ridge in roofs.ridges if ridge.beta is not None)
    return {key_of_cohort(own.own.cohort): own for own in (*roofs.bandwidths, *of_ridges)}


def _drawn(gpu: ListedGpu, summary: VerdictSummary | None, links: Links) -> DrawnGpu:
    """A gpu as charts speak of it."""
    where = gpu.location
    return DrawnGpu(
        label=gpu_label(where.node, where.index, where.gpu_id),
        state=None if summary is None else summary.state,
        href=links.gpu(where.gpu_id),
        note="" if summary is None or summary.reason is None else state_word(summary.reason),
    )


def roofline_chart(subject: DeviceCharts) -> RooflineChart:
    """The roofline of a device: each fleet roof, the gpus that stand out, published peaks, workloads."""
    answer, main = subject.answer, subject.dtype
    roofs = tuple(_fleet_roof(ridge, subject) for ridge in largest(answer.ridges))
    published = {variant_words(ridge): ridge.published.pi_tflops for ridge in answer.ridges if ridge.dtype == main}
    betas = [ridge.published.beta_gbps for ridge in answer.ridges if ridge.published.beta_gbps is not None]
    return RooflineChart(
        title=f"Roofline of {answer.device.name}",
        roofs=roofs,
        published_pi=tuple(PublishedPi(dtype, pi) for dtype, pi in published.items() if pi is not None),
        published_beta_gbps=betas[0] if betas else None,
        workloads=_workloads(roofs, main),
    )


def _fleet_roof(ridge: FleetRidge, subject: DeviceCharts) -> FleetRoof:
    is_main = ridge.dtype == subject.dtype
    beta, middle = ridge.beta_gbps, ridge.ridge_flop_per_byte
    return FleetRoof(
        dtype=variant_words(ridge),
        regime=ridge.regime,
        pi_tflops=ridge.pi_tflops.median,
        beta_gbps=None if beta is None else beta.median,
        gpus=tuple(_gpu_roof(*own) for own in subject.ridges.get(key_of(ridge), ())) if is_main else (),
        ridge_median=None if middle is None else middle.median,
        pi_spread=ridge.pi_tflops if is_main else None,
        beta_spread=beta if is_main else None,
    )


def _gpu_roof(gpu: DrawnGpu, ridge: Ridge) -> GpuRoof:
    return GpuRoof(gpu, ridge.pi.own.value, None if ridge.beta is None else ridge.beta.own.value)


def _workloads(roofs: Iterable[FleetRoof], dtype: str | None) -> tuple[WorkloadMark, ...]:
    """Reference workloads on the first roofs of a dtype that have a beta."""
    of_dtype = [roof for roof in roofs if dtype in DTYPES and roof.dtype.split("→")[0].split(" ")[0] == dtype]
    for roof in of_dtype:
        if roof.beta_gbps is not None and dtype is not None:
            placed = [
                place(workload, pi_tflops=roof.pi_tflops, beta_gbps=roof.beta_gbps)
                for workload in reference_workloads(DTYPES[dtype])
            ]
            return tuple(
                WorkloadMark(own.workload.name, own.workload.intensity, own.attainable_tflops, own.bound)
                for own in placed
            )
    return ()


# More strips than this are no longer a glance; a filter by dtype has the others.
_MOST_STRIPS = 8


def strip_chart(subject: DeviceCharts) -> StripChart:
    """
    Deviations of every gpu from the median of its peers: pi of each dtype, beta, and I* of one dtype.

    Of a large fleet pi of one dtype and beta; the filter by dtype has the others.
    """
    strips = (*_pi_strips(subject), *_beta_strips(subject), *_ridge_strips(subject))
    return StripChart("Distance of every gpu from the median", tuple(strip for strip in strips if strip.count))


def distribution_chart(subject: DeviceCharts) -> DistributionChart | None:
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


def _pi_strips(subject: DeviceCharts) -> list[Strip]:
    answer = subject.answer
    strips = [
        _pi_strip(subject, ridge, conditions)
        for ridge, conditions in zip(answer.ridges, differing_conditions(answer.ridges), strict=True)
        if subject.listed <= MANY_GPUS or ridge.dtype == subject.dtype
    ]
    return sorted(strips, key=lambda strip: -strip.count)[:_MOST_STRIPS]


def _pi_strip(subject: DeviceCharts, ridge: FleetRidge, conditions: str) -> Strip:
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


def _beta_strips(subject: DeviceCharts) -> Iterable[Strip]:
    """Bandwidths of the answer; where a filter leaves those out, those that its ridges rest on."""
    answer = subject.answer
    for own in answer.bandwidths:
        crowd = _crowd(subject, key_of(own))
        yield _beta_strip(subject, key_of(own), own.beta_gbps.median, own.published_beta_gbps, crowd, own.note)
    if not answer.bandwidths:
        yield from _betas_of_ridges(subject)


def _betas_of_ridges(subject: DeviceCharts) -> Iterable[Strip]:
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
    subject: DeviceCharts, key: RoofKey, median: float, published: float | None, crowd: Spread | None, note: str | None
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


def _ridge_strips(subject: DeviceCharts) -> Iterable[Strip]:
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


def _crowd(subject: DeviceCharts, key: RoofKey) -> Spread | None:
    own = subject.quantiles.get(key)
    return None if own is None else of_quantiles(own.peers.n, own.quantiles)
