"""How a verdict comes about, in words and numbers that anybody can check with a pocket calculator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleetridge.quantities import percent, quantity, significant
from fleetridge_server.answer.drift_schemas import DriftShown
from fleetridge_server.answer.judged_roof_schemas import JudgedRoof, RunShown
from fleetridge_server.answer.verdict_words import onset_words, peers_words
from fleetridge_server.compare.cohort import NEWEST_REPORTS
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.text.gpu_verdicts import drift_words

# The rule of the judgement: a distance of this many scales is beyond the limit.
_SCALES = "3.5"


@dataclass(frozen=True, slots=True)
class RoofSum:
    """One judged roof with its sum in words, a line for each step."""

    roof: JudgedRoof
    name: str
    standing: str
    steps: tuple[str, ...]


def roof_sum(own: JudgedRoof) -> RoofSum:
    """The sum of one roof."""
    standing = "excused" if own.excused else own.standing
    return RoofSum(
        roof=own,
        name=roof_words(own.roof),
        standing="few peers" if own.band.note is not None else standing,
        steps=tuple(_steps(own)),
    )


def drift_sum(drift: DriftShown) -> str:
    """One roof beside the gpu's own past."""
    return drift_words(drift)


def _steps(own: JudgedRoof) -> Iterator[str]:
    band, unit = own.band, own.unit
    used = own.runs[:NEWEST_REPORTS]
    values = ", ".join(_run(run) for run in used)
    runs = "run" if len(used) == 1 else "runs"
    yield f"value: {quantity(own.value, unit)}, the median of its newest {len(used)} {runs} ({values} {unit})"
    half = " (of its faster half, as the slower lies apart)" if band.of_faster_half else ""
    yield f"median: {quantity(band.median, unit)} over {peers_words(band)}{half}, this gpu counted"
    yield f"loss: 1 − {significant(own.value)} / {significant(band.median)} = {percent(own.loss)}"
    if band.note is not None:
        yield f"no verdict: {band.note}"
        return
    part = percent(band.scale / band.median)
    source = "from the spread of the peers (MAD)" if band.scale_source == "mad" else "the least that is assumed"
    yield f"scale: {quantity(band.scale, unit)}, {source}, which is {part} of the median"
    wide = "" if band.wide else ", but at most 10 %"
    yield (
        f"limit: the larger of {percent(band.gate)} and {_SCALES} × {part}{wide} = "
        f"{percent(band.limit)}, so that less than {quantity(band.lowest, unit)} is beyond it"
    )
    if own.z is not None:
        away = f"({significant(own.value)} − {significant(band.median)}) / {significant(band.scale)}"
        yield f"z: {away} = {significant(own.z)}"
    if own.q is not None:
        chance = "t distribution" if band.degrees is not None else "normal distribution"
        yield (
            f"q: {significant(own.q)}, the share of false alarms to expect among all gpus that are as far off "
            f"(p = {significant(own.p)}, {chance})"
        )
    if own.runs_beyond:
        yield f"runs: {own.runs_beyond} of its newest {len(own.runs)} lie beyond the limit; {onset_words(own)}"


def _run(run: RunShown) -> str:
    """A run's value, and by what an upgrade since then is allowed for."""
    return significant(run.value) if run.carried == 1 else f"{significant(run.value)} × {run.carried:.3f}"
