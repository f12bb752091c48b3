"""
From the verdicts of the engine to the shapes that are stored and shown.

Pure: an evaluation in, `GpuVerdict` for each of its gpus and one `EvaluationBody` out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from fleetridge.report import RoofKey
from fleetridge_server.answer.band_schemas import Band
from fleetridge_server.answer.reason_schemas import FactShown, PlaceShown, ReasonShown
from fleetridge_server.answer.roof_schemas import LevelName, RoofName
from fleetridge_server.answer.verdict_schemas import ExcuseShown
from fleetridge_server.compare.ridge import too_few
from fleetridge_server.verdict.explanation import Explanation, RankedReason, ranked_reasons
from fleetridge_server.verdict.facts import Fact
from fleetridge_server.verdict.judgement import Yardstick
from fleetridge_server.verdict.levels import Level
from fleetridge_server.verdict.marks import Mark
from fleetridge_server.verdict.members import WINDOW
from fleetridge_server.verdict.nodes import RackName
from fleetridge_server.verdict.reason import PlaceWord


def reasons_shown(explained: Sequence[Explanation]) -> tuple[ReasonShown, ...]:
    """Reasons of all a gpu's accused roofs, the strongest first; one that several roofs share is told once."""
    return tuple([_reason(ranked) for ranked in ranked_reasons(explained)]) if explained else ()


def facts_shown(facts: Iterable[Fact]) -> tuple[FactShown, ...]:
    """Readings as they are shown."""
    return tuple(FactShown(*fact) for fact in facts)


@lru_cache(maxsize=1024)
def roof_name(roof: RoofKey) -> RoofName:
    """A roof's key as it is shown."""
    return RoofName(*roof)


def unit_of(roof: RoofKey) -> str:
    """Unit of a roof's values."""
    return "TFLOP/s" if roof.kind == "compute" else "GB/s"


def band(stick: Yardstick) -> Band:
    """A yardstick as it is shown."""
    return Band(
        n=stick.n,
        median=stick.median,
        scale=stick.scale.value,
        scale_source=stick.scale.source,
        degrees=stick.scale.degrees,
        pooled_n=stick.pooled_n,
        floor=stick.floor,
        gate=stick.gate,
        limit=stick.limit,
        lowest=stick.median * (1 - stick.limit),
        wide=stick.wide,
        levels=level_names(stick.levels),
        note=_note(stick),
        of_faster_half=stick.of_faster_half,
    )


def _note(stick: Yardstick) -> str | None:
    """Why there is no verdict, if there is none."""
    if not stick.is_recent:
        return f"nobody was measured in the last {WINDOW.days} days; old values stand beside one another"
    return too_few(stick.n)


def level_names(levels: Iterable[Level]) -> tuple[LevelName, ...]:
    """Levels as they are shown."""
    return tuple(LevelName(level.factor, level.name) for level in levels)


def _reason(ranked: RankedReason) -> ReasonShown:
    reason, place = ranked.reason, ranked.reason.place
    kind: PlaceWord = "rack" if isinstance(place, RackName) else "node"
    return ReasonShown(
        code=reason.code,
        text=reason.text,
        next_step=reason.next_step,
        cause=reason.is_cause,
        facts=facts_shown(reason.facts),
        roofs=tuple(roof_name(verdict.cohort.roof) for verdict in ranked.verdicts),
        place=None if place is None else PlaceShown(kind, place.cluster, place.name),
    )


def excuse_shown(mark: Mark, marks: Mapping[Mark, int]) -> ExcuseShown:
    """A mark without which a state would be another."""
    return ExcuseShown(marks.get(mark), mark.kind, mark.reason, mark.made_at, mark.until)
