"""Charts of a device, from the answer about it and the roofs of its gpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetridge.dtypes import DTYPES
from fleetridge.quantities import deviation
from fleetridge.workloads import place, reference_workloads
from fleetridge_server.answer.band_schemas import CohortShown
from fleetridge_server.answer.device_schemas import DeviceRidge
from fleetridge_server.answer.schemas import FleetBandwidth, FleetRidge
from fleetridge_server.compare.cohort import Cohort, Conditions
from fleetridge_server.compare.ranking import Standing
from fleetridge_server.compare.ridge import Compared, Ridge
from fleetridge_server.compare.roof_words import variant
from fleetridge_server.drawing.distribution import DistributionChart
from fleetridge_server.drawing.gpu import DrawnGpu
from fleetridge_server.drawing.roofline_chart import FleetRoof, GpuRoof, PublishedPi, RooflineChart, WorkloadMark
from fleetridge_server.drawing.strip_chart import GpuDeviation, Strip, StripChart
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.words import gpu_label, state_word
from fleetridge_server.store.told import Head
from fleetridge_server.text.words import differing_conditions

# What most models are served in comes first.
_PREFERRED = ("bfloat16", "float16")

# More strips than this are no longer a glance; a filter by dtype has the others.
_MOST_STRIPS = 8

# From here on a page has strips of one dtype alone: each costs as much time as its gpus are many.
_MANY_GPUS = 1000

_RoofKey = tuple[str, str | None, bool | None, str, str | None, Conditions]


@dataclass(frozen=True, slots=True)
class Subject:
    """
    What the charts of a device are made from.

    Attributes:
        answer: about the device.
        links: of the page.
        gpus: how many are drawn.
        ridges, betas: of the gpus to draw, worst first, by what they are compared in.
    """

    answer: DeviceRidge
    links: Links
    gpus: int
    ridges: Mapping[_RoofKey, Sequence[tuple[DrawnGpu, Ridge]]]
    betas: Mapping[_RoofKey, Sequence[tuple[DrawnGpu, Compared]]]

    @property
    def dtype(self) -> str | None:
        """Dtype that single charts are about; None where nothing was measured."""
        found = [ridge.dtype for ridge in self.answer.ridges]
        return next((dtype for dtype in _PREFERRED if dtype in found), found[0] if found else None)


def subject_of(answer: DeviceRidge, gpus: Sequence[Standing], said: Mapping[str, Head], links: Links) -> Subject:
    """
    What charts are made from.

    Args:
        answer: about the device.
        gpus: to draw, worst first.
        said: of each of them in a line.
        links: of the page.
    """
    ridges: dict[_RoofKey, list[tuple[DrawnGpu, Ridge]]] = defaultdict(list)
    betas: dict[_RoofKey, list[tuple[DrawnGpu, Compared]]] = defaultdict(list)
    for gpu in gpus:
        head = said.get(gpu.place.gpu_id)
        # Bars stand for the healthy gpus of a large fleet, and lead to none of them.
        with_link = len(gpus) <= _MANY_GPUS or (head is not None and head.state != "ok")
        drawn = _drawn(gpu, head, links, with_link=with_link)
        for ridge in gpu.roofs.ridges:
            ridges[_key(ridge.pi.own.cohort)].append((drawn, ridge))
        for beta in gpu.roofs.bandwidths:
            roof = beta.own.cohort.roof
            betas[roof.dtype, None, None, roof.regime, roof.kernel, beta.own.cohort.conditions].append((drawn, beta))
    return Subject(answer, links, len(gpus), ridges, betas)


def roofline_chart(subject: Subject) -> RooflineChart:
    """Median roofs of every dtype; those of the gpus, and what workloads reach, for one."""
    answer, main = subject.answer, subject.dtype
    roofs = tuple(
        FleetRoof(
            dtype=_variant_words(ridge),
            regime=ridge.regime,
            pi_tflops=ridge.pi_tflops.median,
            beta_gbps=None if ridge.beta_gbps is None else ridge.beta_gbps.median,
            gpus=tuple(_gpu_roof(*own) for own in subject.ridges.get(_key_of(ridge), ()))
            if ridge.dtype == main
            else (),
            ridge_median=None if ridge.ridge_flop_per_byte is None else ridge.ridge_flop_per_byte.median,
        )
        for ridge in _largest(answer.ridges)
    )
    published = {_variant_words(ridge): ridge.published.pi_tflops for ridge in answer.ridges if ridge.dtype == main}
    betas = [ridge.published.beta_gbps for ridge in answer.ridges if ridge.published.beta_gbps is not None]
    return RooflineChart(
        title=f"Roofline of {answer.device.name}",
        roofs=roofs,
        published_pi=tuple(PublishedPi(dtype, pi) for dtype, pi in published.items() if pi is not None),
        published_beta_gbps=betas[0] if betas else None,
        workloads=_workloads(roofs, main),
    )


def strip_chart(subject: Subject) -> StripChart:
    """
    Deviations of every gpu from the median of its peers: pi of each dtype, beta, and I* of one dtype.

    Of a large fleet pi of one dtype and beta; the filter by dtype has the others.
    """
    answer = subject.answer
    strips = [
        *_pi_strips(subject),
        *(_beta_strip(own, subject.betas.get(_key_of(own), ()), answer.cohorts) for own in answer.bandwidths),
        *(() if subject.gpus > _MANY_GPUS else _ridge_strips(subject)),
    ]
    return StripChart("Distance of every gpu from the median", tuple(strip for strip in strips if strip.gpus))


def distribution_chart(subject: Subject) -> DistributionChart | None:
    """How pi of one dtype is distributed over the gpus that are drawn; None where nothing was measured."""
    for ridge in _largest(subject.answer.ridges):
        own = subject.ridges.get(_key_of(ridge), ())
        if ridge.dtype == subject.dtype and own:
            band = _only_band(subject.answer.cohorts, ridge)
            return DistributionChart(
                title=f"How pi {variant(ridge.dtype, ridge.regime)} is distributed",
                unit="TFLOP/s",
                values=tuple(found.pi.own.value for _, found in own),
                published=ridge.published.pi_tflops,
                lowest=None if band is None else band[1],
            )
    return None


def _pi_strips(subject: Subject) -> list[Strip]:
    answer = subject.answer
    conditions = differing_conditions(answer.ridges)
    strips = []
    for ridge, own_conditions in zip(answer.ridges, conditions, strict=True):
        if subject.gpus > _MANY_GPUS and ridge.dtype != subject.dtype:
            continue
        band = _only_band(answer.cohorts, ridge)
        strips.append(
            Strip(
                label=f"pi {_variant_words(ridge)} {ridge.regime}{own_conditions}",
                unit="TFLOP/s",
                median=ridge.pi_tflops.median,
                gpus=tuple(
                    GpuDeviation(gpu, own.pi.own.value, own.pi.deviation)
                    for gpu, own in subject.ridges.get(_key_of(ridge), ())
                ),
                limit=None if band is None else band[0],
                published=ridge.published.pi_tflops,
                note=ridge.note or _level_note(answer.cohorts, ridge),
            )
        )
    return sorted(strips, key=lambda strip: -len(strip.gpus))[:_MOST_STRIPS]


def _beta_strip(
    own: FleetBandwidth, gpus: Sequence[tuple[DrawnGpu, Compared]], cohorts: Sequence[CohortShown]
) -> Strip:
    band = _only_band(cohorts, own)
    return Strip(
        label=f"beta {own.kernel or 'any kernel'} {own.regime}",
        unit="GB/s",
        median=own.beta_gbps.median,
        gpus=tuple(GpuDeviation(gpu, beta.own.value, beta.deviation) for gpu, beta in gpus),
        limit=None if band is None else band[0],
        published=own.published_beta_gbps,
        note=own.note or _level_note(cohorts, own),
    )


def _ridge_strips(subject: Subject) -> list[Strip]:
    strips = []
    for ridge in _largest(subject.answer.ridges):
        middle = ridge.ridge_flop_per_byte
        if ridge.dtype != subject.dtype or middle is None:
            continue
        found = [(gpu, own.flop_per_byte) for gpu, own in subject.ridges.get(_key_of(ridge), ())]
        strips.append(
            Strip(
                label=f"I* {_variant_words(ridge)} {ridge.regime}",
                unit="FLOP/byte",
                median=middle.median,
                gpus=tuple(
                    GpuDeviation(gpu, value, deviation(value, middle.median))
                    for gpu, value in found
                    if value is not None
                ),
                published=ridge.published.ridge_flop_per_byte,
                note="shown, not judged",
            )
        )
    return strips


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


def _largest(ridges: Sequence[FleetRidge]) -> list[FleetRidge]:
    """Of the groups that share a roof the one with most gpus, in the order of the answer."""
    found: dict[tuple[object, ...], FleetRidge] = {}
    for ridge in ridges:
        roof = (ridge.dtype, ridge.out_dtype, ridge.fast_accumulation, ridge.regime)
        if roof not in found or ridge.peers > found[roof].peers:
            found[roof] = ridge
    return list(found.values())


def _drawn(gpu: Standing, head: Head | None, links: Links, *, with_link: bool) -> DrawnGpu:
    """A gpu as charts speak of it."""
    where = gpu.place
    return DrawnGpu(
        label=gpu_label(where.node, where.index, where.gpu_id),
        state=None if head is None else head.state,
        href=links.gpu(where.gpu_id) if with_link else None,
        note="" if head is None or head.reason is None else state_word(head.reason),
    )


def _key(cohort: Cohort) -> _RoofKey:
    roof = cohort.roof
    return roof.dtype, roof.out_dtype, roof.fast_accumulation, roof.regime, roof.kernel, cohort.conditions


def _key_of(figures: FleetRidge | FleetBandwidth) -> _RoofKey:
    if isinstance(figures, FleetBandwidth):
        return figures.dtype, None, None, figures.regime, figures.kernel, figures.conditions
    return (
        figures.dtype,
        figures.out_dtype,
        figures.fast_accumulation,
        figures.regime,
        figures.kernel,
        figures.conditions,
    )


def _cohort_of(cohorts: Iterable[CohortShown], figures: FleetRidge | FleetBandwidth) -> CohortShown | None:
    key = _key_of(figures)
    for cohort in cohorts:
        roof = cohort.roof
        is_pi = isinstance(figures, FleetRidge)
        variant_of = (roof.out_dtype, roof.fast_accumulation) if is_pi else (None, None)
        if (
            (roof.kind == "compute") == is_pi
            and roof.level == "device"
            and (roof.dtype, *variant_of, roof.regime, roof.kernel, cohort.conditions) == key
        ):
            return cohort
    return None


def _only_band(cohorts: Iterable[CohortShown], figures: FleetRidge | FleetBandwidth) -> tuple[float, float] | None:
    """Limit and lowest value of a group that is judged as one; None for any other."""
    cohort = _cohort_of(cohorts, figures)
    if cohort is None or len(cohort.bands) != 1 or cohort.bands[0].note is not None:
        return None
    return cohort.bands[0].limit, cohort.bands[0].lowest


def _level_note(cohorts: Iterable[CohortShown], figures: FleetRidge | FleetBandwidth) -> str:
    cohort = _cohort_of(cohorts, figures)
    if cohort is None or len(cohort.bands) == 1:
        return ""
    factors = sorted({level.factor for band in cohort.bands for level in band.levels})
    return f"each gpu is judged among those with its own {' and '.join(map(state_word, factors))}"


def _gpu_roof(gpu: DrawnGpu, ridge: Ridge) -> GpuRoof:
    return GpuRoof(gpu, ridge.pi.own.value, None if ridge.beta is None else ridge.beta.own.value)


def _variant_words(ridge: FleetRidge) -> str:
    return variant(ridge.dtype, "unspecified", ridge.out_dtype, fast_accumulation=ridge.fast_accumulation)
