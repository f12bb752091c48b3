"""What the charts of a device are made from: the answer about it, and the gpus to draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetridge_server.answer.band_schemas import CohortShown
from fleetridge_server.answer.device_schemas import DeviceRidge
from fleetridge_server.answer.figure_schemas import CohortFigures
from fleetridge_server.answer.schemas import FleetRidge
from fleetridge_server.api.devices import RidgeRead
from fleetridge_server.api.gpu_lists import ListedGpu
from fleetridge_server.compare.ridge import Compared, GpuRoofs, Ridge
from fleetridge_server.compare.roof_words import variant
from fleetridge_server.drawing.gpu import DrawnGpu
from fleetridge_server.evaluation.read import VerdictSummary
from fleetridge_server.pages.device_bands import RoofKey, key_of_cohort
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.words import gpu_label, state_word

# What most models are served in comes first.
_PREFERRED = ("bfloat16", "float16")

# From here on a page has strips of one dtype alone: each costs as much time as its gpus are many.
MANY_GPUS = 1000

# Bars stand for the healthy gpus of so many, and name none of them.
_ANYBODY = DrawnGpu("gpu", "ok")


@dataclass(frozen=True, slots=True)
class Subject:
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
        found = [ridge.dtype for ridge in self.answer.ridges]
        return next((dtype for dtype in _PREFERRED if dtype in found), found[0] if found else None)


def subject_of(read: RidgeRead, links: Links) -> Subject:
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
    return Subject(
        answer=read.answer,
        links=links,
        listed=drawn_of.listed,
        drawn=len(drawn_of.gpus),
        ridges=ridges,
        betas=betas,
        quantiles={_key_of_figures(own): own for own in drawn_of.quantiles},
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


def _key_of_figures(own: CohortFigures) -> RoofKey:
    roof = own.roof
    pi_variant = (roof.out_dtype, roof.fast_accumulation) if roof.kind == "compute" else (None, None)
    return roof.kind, roof.dtype, *pi_variant, roof.regime, roof.kernel, own.conditions
