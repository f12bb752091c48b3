"""
From the verdicts of the engine to the shapes that are stored and shown.

Pure: an evaluation in, `GpuVerdict` for each of its gpus and one `EvaluationBody` out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from fleetridge.report import RoofKey
from fleetridge_server.answer.band_schemas import Band
from fleetridge_server.answer.drift_schemas import DriftShown
from fleetridge_server.answer.judged_roof_schemas import JudgedRoof, RunShown, SettingChangeShown, StandingName
from fleetridge_server.answer.reason_schemas import FactShown, PlaceShown, ReasonShown
from fleetridge_server.answer.roof_schemas import LevelName, RoofName
from fleetridge_server.answer.verdict_schemas import ExcuseShown, GpuVerdict, VerdictFlag
from fleetridge_server.answer.verdict_words import sentence, subject_of
from fleetridge_server.compare.cohort import NEWEST_REPORTS, cohort_order
from fleetridge_server.compare.ridge import too_few
from fleetridge_server.verdict.accusation import Standing
from fleetridge_server.verdict.drift import Drift
from fleetridge_server.verdict.evaluation import Evaluation
from fleetridge_server.verdict.explanation import Explanation, RankedReason, ranked_reasons
from fleetridge_server.verdict.facts import Fact
from fleetridge_server.verdict.judgement import Yardstick
from fleetridge_server.verdict.levels import Level
from fleetridge_server.verdict.marks import Mark
from fleetridge_server.verdict.members import Run, is_link
from fleetridge_server.verdict.nodes import RackName
from fleetridge_server.verdict.onset import onset
from fleetridge_server.verdict.reason import PlaceWord
from fleetridge_server.verdict.state import GpuState
from fleetridge_server.verdict.verdicts import Verdict

_STANDINGS: Mapping[Standing, StandingName] = {
    Standing.CLEAR: "clear",
    Standing.SUSPECT: "suspect",
    Standing.OUTLIER: "outlier",
}

BandOf = Callable[[Yardstick], Band]


def gpu_verdict(  # everything that a verdict rests on
    gpu_id: str,
    evaluation: Evaluation,
    explanations: Mapping[str, Sequence[Explanation]],
    drifts: Mapping[str, Mapping[RoofKey, Drift]],
    marks: Mapping[Mark, int],
    *,
    identity_conflict: bool = False,
    band_of: BandOf | None = None,
) -> GpuVerdict:
    """
    Verdict on one gpu as it is stored and shown.

    Args:
        gpu_id: one of `evaluation.states`.
        evaluation: of its device.
        explanations: `explanation.explanations` of it, of all gpus.
        drifts: with which it was made, of all gpus.
        marks: the id under which each mark that it was made with is stored.
        identity_conflict: whether two nodes claim the gpu.
        band_of: `bands()` of the evaluation, for those who ask for many of its gpus.
    """
    state = evaluation.states[gpu_id]
    verdicts = sorted(evaluation.verdicts.get(gpu_id, ()), key=_order_of)
    own = drifts.get(gpu_id, {})
    judged: list[JudgedRoof] = []
    links: list[JudgedRoof] = []
    for verdict in verdicts:
        roof = verdict.member.cohort.roof
        shown = _judged(verdict, state, own.get(roof), band_of or band)
        (links if is_link(roof) else judged).append(shown)
    roofs = tuple(judged)
    reasons = reasons_shown(explanations.get(gpu_id, ()))
    own_drifts = tuple([_drift(roof, drift, state) for roof, drift in own.items()])
    excuses = tuple([_excuse(mark, marks) for mark in state.excused_by])
    return GpuVerdict(
        gpu_id=gpu_id,
        state=state.state,
        last_state=state.last_state,
        text=sentence(state.state, state.last_state, roofs, own_drifts, excuses, state.measured_at),
        reason=reasons[0].code if reasons else None,
        worst_loss=_worst_loss(roofs),
        flags=_flags(roofs, excuses, identity_conflict=identity_conflict),
        reasons=reasons,
        roofs=roofs,
        links=tuple(links),
        drifts=own_drifts,
        excuses=excuses,
        measured_at=state.measured_at,
        **_slow_since(subject_of(state.last_state or state.state, roofs, own_drifts)),
    )


def verdict_json(verdict: GpuVerdict) -> bytes:
    """A verdict as it is stored: the text that pydantic makes of it, in a third of the time."""
    return orjson.dumps(verdict.__dict__, option=orjson.OPT_UTC_Z)


def reasons_shown(explained: Sequence[Explanation]) -> tuple[ReasonShown, ...]:
    """Reasons of all a gpu's accused roofs, the strongest first; one that several roofs share is told once."""
    return tuple([_reason(ranked) for ranked in ranked_reasons(explained)]) if explained else ()


def facts_shown(facts: Iterable[Fact]) -> tuple[FactShown, ...]:
    """Readings as they are shown."""
    return tuple(FactShown(*fact) for fact in facts)


# A fleet has few cohorts and many gpus in each.
_order = lru_cache(maxsize=1024)(cohort_order)


def _order_of(verdict: Verdict) -> tuple[str, ...]:
    return _order(verdict.member.cohort)


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
        note=too_few(stick.n),
        of_faster_half=stick.of_faster_half,
    )


def bands() -> BandOf:
    """`band` that remembers: gpus of a group share their yardstick, and to find it by its fields would cost as much."""
    made: dict[int, tuple[Yardstick, Band]] = {}

    def band_of(stick: Yardstick) -> Band:
        held = made.get(id(stick))
        if held is None:
            # With the yardstick, so that its id stays its own.
            held = made[id(stick)] = stick, band(stick)
        return held[1]

    return band_of


def level_names(levels: Iterable[Level]) -> tuple[LevelName, ...]:
    """Levels as they are shown."""
    return tuple(LevelName(level.factor, level.name) for level in levels)


def _slow_since(subject: JudgedRoof | DriftShown | None) -> dict[str, Any]:
    """Since when the gpu is slow in what the sentence on it is about."""
    if isinstance(subject, DriftShown):
        return {"slow_since": subject.onset}
    if subject is None:
        return {}
    return {"slow_since": subject.slow_since, "slow_since_is_bound": subject.slow_since_is_bound}


def _judged(verdict: Verdict, state: GpuState, drift: Drift | None, band_of: BandOf) -> JudgedRoof:
    member, finding, stick = verdict.member, verdict.finding, verdict.yardstick
    is_accused = verdict.is_accused
    # Most gpus have no run beyond the limit.
    has_beyond = stick.has_verdict and stick.is_beyond(min([run.value for run in member.runs]))
    found = onset(verdict, drift) if has_beyond else None
    slow = found if is_accused else None
    roof, conditions = member.cohort
    return JudgedRoof(
        roof=roof_name(roof),
        unit=unit_of(roof),
        conditions=conditions,
        value=member.value,
        runs=_runs(member.runs, stick) if has_beyond else tuple([_run(own) for own in member.runs[:NEWEST_REPORTS]]),
        recent=member.in_window,
        band=band_of(stick),
        loss=verdict.loss,
        z=verdict.z,
        p=verdict.p,
        q=verdict.q,
        standing=_STANDINGS[finding.standing],
        excused=is_accused and not is_link(roof) and verdict not in state.accused,
        retest=finding.retest,
        intermittent=finding.intermittent,
        counted=verdict.counted,
        runs_beyond=0 if found is None else found.beyond,
        newest_beyond=0 if found is None else found.streak,
        slow_since=None if slow is None else slow.since,
        slow_since_is_bound=slow is not None and slow.is_bound,
        slow_with=() if slow is None else tuple([SettingChangeShown(*change) for change in slow.changes]),
    )


def _runs(runs: Iterable[Run], stick: Yardstick) -> tuple[RunShown, ...]:
    return tuple([_run(run, beyond=stick.is_beyond(run.value)) for run in runs])


def _run(run: Run, *, beyond: bool = False) -> RunShown:
    report, reading, carried = run
    return RunShown(report.report_id, report.ordered_at, reading.value, beyond, carried, reading.converged)


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


def _drift(roof: RoofKey, drift: Drift, state: GpuState) -> DriftShown:
    return DriftShown(
        roof=roof_name(roof),
        status=drift.status,
        looks=drift.looks,
        baseline=drift.baseline,
        scale=drift.scale,
        low=drift.low,
        high=drift.high,
        onset=drift.onset,
        looks_since=drift.since,
        change=drift.change,
        recent_change=drift.recent_change,
        gate=drift.gate,
        first=drift.first,
        counts=roof in state.drifted,
    )


def _excuse(mark: Mark, marks: Mapping[Mark, int]) -> ExcuseShown:
    return ExcuseShown(marks.get(mark), mark.kind, mark.reason, mark.made_at, mark.until)


def _worst_loss(roofs: Sequence[JudgedRoof]) -> float | None:
    """Largest loss among enough peers; where no roof has enough, among those that there are."""
    compared = [own for own in roofs if own.band.note is None] or roofs
    return max((own.loss for own in compared), default=None)


def _flags(
    roofs: Sequence[JudgedRoof], excuses: Sequence[ExcuseShown], *, identity_conflict: bool
) -> tuple[VerdictFlag, ...]:
    flags: list[tuple[VerdictFlag, bool]] = [
        ("excused", bool(excuses)),
        ("identity_conflict", identity_conflict),
        ("intermittent", any(own.intermittent for own in roofs)),
        ("retest", any(own.retest for own in roofs)),
    ]
    return tuple(flag for flag, holds in flags if holds)
