"""
The verdict on one gpu as it is kept, and as it is shown.

Kept is what the gpu itself did and what was decided of it: its values, runs, state and reasons. What its peers make of
that (median, limit, loss, z, p) stands once for each group in the evaluation (`evaluation_shapes`) and is put beside it
when it is read. So a row changes when its gpu reports or its state changes, and not with every digit of a median.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from pydantic import TypeAdapter

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import cohort_order
from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evaluation import Evaluation
from fleetridge_server.engine.explanation import Explanation, SettingChange, onset
from fleetridge_server.engine.gpu_state import GpuState, Mark, State
from fleetridge_server.engine.statistics import two_sided
from fleetridge_server.engine.values import Run, is_link
from fleetridge_server.engine.verdict import AccusationLevel, Verdict
from fleetridge_server.verdicts.evaluation_shapes import Reference, References, reference_key
from fleetridge_server.verdicts.roof_shapes import RoofName
from fleetridge_server.verdicts.sentence import (
    excuse_shown,
    health_shown,
    next_step,
    reasons_shown,
    sentence,
    subject_of,
)
from fleetridge_server.verdicts.verdict_shapes import (
    AccusationName,
    DriftShown,
    ExcuseShown,
    GpuVerdict,
    HealthShown,
    JudgedRoof,
    ReasonShown,
    RunShown,
    VerdictFlag,
)

_LEVEL_NAMES: Mapping[AccusationLevel, AccusationName] = {
    AccusationLevel.CLEAR: "clear",
    AccusationLevel.SUSPECT: "suspect",
    AccusationLevel.OUTLIER: "outlier",
}

_OF_DRIFT = (
    "status", "looks", "baseline", "scale", "low", "high", "onset", "since", "change", "recent_change", "gate", "first",
)  # fmt: skip

_REASONS = TypeAdapter(tuple[ReasonShown, ...])
_HEALTH = TypeAdapter(tuple[HealthShown, ...])
_EXCUSES = TypeAdapter(tuple[ExcuseShown, ...])


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """
    A verdict to be kept: JSON (see the head of this file), and in a line.

    Attributes:
        reason: code of the first reason.
        text: the sentence on the gpu.
        loss: largest over its judged roofs, by this evaluation's references; no part of the body.
        body: JSON, see the docstring of this module.
    """

    gpu_id: str
    state: State
    last_state: State | None
    reason: str | None
    text: str
    loss: float | None
    body: bytes


class Recorder:
    """Makes the records of one evaluation."""

    def __init__(
        self,
        evaluation: Evaluation,
        explanations: Mapping[str, Sequence[Explanation]],
        drifts: Mapping[str, Mapping[RoofKey, Drift]],
        marks: Mapping[Mark, int],
        references: References,
    ) -> None:
        """Recorder of an evaluation; `marks` has the id under which each mark that it was made with is stored."""
        self.evaluation, self.explanations, self.drifts = evaluation, explanations, drifts
        self.marks, self.references = marks, references
        # A fleet has few groups and many gpus in each. A key is found by the ids of two objects, which a verdict that
        # is held beside it keeps alive, so that no other object gets the same ids.
        self._keys: dict[tuple[int, int], tuple[str, Verdict]] = {}
        ordered = sorted(evaluation.cohorts, key=cohort_order)
        self._places = {id(cohort): place for place, cohort in enumerate(ordered)}

    def record(self, gpu_id: str) -> VerdictRecord:
        """Record of one gpu, which has a state."""
        state = self.evaluation.states[gpu_id]
        verdicts = sorted(self.evaluation.verdicts.get(gpu_id, ()), key=self._place_of)
        own_drifts = self.drifts.get(gpu_id, {})
        reports: dict[str, int] = {}
        times: list[tuple[str, datetime]] = []
        rows: list[list[Any]] = []
        links: list[list[Any]] = []
        slow_links: list[list[Any]] = []
        for verdict in verdicts:
            roof = verdict.cohort.roof
            row = self._row(verdict, state, own_drifts.get(roof), reports, times)
            (links if is_link(roof) else rows).append(row)
            if is_link(roof) and verdict.is_accused:
                slow_links.append(row)
        excuses = tuple(excuse_shown(mark, self.marks) for mark in state.excused_by)
        reasons = reasons_shown(self.explanations.get(gpu_id, ()))
        said = state.last_state or state.state
        # Of all others the sentence is about roofs.
        roofs = () if said == "ok" and not _is_retest(verdicts) else tuple(self._judged(row, times) for row in rows)
        drifts = [_drift(roof, drift, state) for roof, drift in own_drifts.items()]
        drifted = tuple(map(_drift_shown, drifts)) if said == "drifted" else ()
        subject = subject_of(said, roofs, drifted, is_known=state.state == "known")
        slow = tuple(self._judged(row, times) for row in slow_links)
        health = health_shown(self.evaluation.health.get(gpu_id, ()))
        above = [own.text for own in health if own.code == "implausible_rate"]
        text = sentence(state.state, state.last_state, roofs, drifted, excuses, state.measured_at, slow, above)
        record = {
            "state": state.state,
            "last_state": state.last_state,
            "text": text,
            "reasons": reasons,
            "excused": bool(excuses),
            "differs": state.differs,
            "identity_conflict": state.identity_conflict,
            "reports": times,
            "roofs": rows,
            "links": links,
            "drifts": drifts,
            "excuses": excuses,
            "slow_since": None if subject is None else _slow_since(subject),
            "slow_since_is_bound": isinstance(subject, JudgedRoof) and subject.slow_since_is_bound,
            "measured_at": state.measured_at,
            "health": health,
        }
        return VerdictRecord(
            gpu_id=gpu_id,
            state=state.state,
            last_state=state.last_state,
            reason=reasons[0].code if reasons else None,
            text=text,
            loss=worst_loss((verdict.loss, verdict.limits.has_verdict) for verdict in _judged_roofs(verdicts)),
            body=orjson.dumps(record),
        )

    def _judged(self, row: Sequence[Any], times: Sequence[tuple[str, datetime]]) -> JudgedRoof:
        return judged_roof(row, times, self.references[row[0]])

    def _row(  # everything that a roof's row is made from
        self,
        verdict: Verdict,
        state: GpuState,
        drift: Drift | None,
        reports: dict[str, int],
        times: list[tuple[str, datetime]],
    ) -> list[Any]:
        member, limits = verdict.member, verdict.limits
        # Most gpus have no run beyond the limit.
        has_beyond = limits.has_verdict and limits.is_beyond(min([run.value for run in member.runs]))
        runs = member.runs if has_beyond else member.runs[: member.value_runs]
        row: list[Any] = [
            self._key(verdict),
            member.value,
            member.in_window,
            verdict.counted,
            member.value_runs,
            [_run(run, reports, times) for run in runs],
        ]
        if has_beyond or verdict.is_accused:
            row.append(_beyond(verdict, state, drift))
        elif verdict.is_far_behind:
            row.append({"behind": verdict.behind})
        return row

    def _place_of(self, verdict: Verdict) -> int:
        """Place of a verdict's cohort among those of the evaluation."""
        return self._places[id(verdict.cohort)]

    def _key(self, verdict: Verdict) -> str:
        shared = id(verdict.cohort), id(verdict.limits)
        known = self._keys.get(shared)
        if known is None:
            roof, conditions = verdict.cohort
            key = reference_key(roof, conditions, verdict.limits.levels)
            known = self._keys[shared] = key, verdict
        return known[0]


def shown_verdict(gpu_id: str, body: str | bytes, references: References) -> GpuVerdict:
    """A verdict with every number that it rests on, from what is kept of it and the references of its evaluation."""
    record = orjson.loads(body)
    times = [(report_id, _time(at)) for report_id, at in record["reports"]]
    roofs, links = (
        tuple([judged_roof(row, times, references[row[0]]) for row in record[name]]) for name in ("roofs", "links")
    )
    reasons = _REASONS.validate_python(record["reasons"]) if record["reasons"] else ()
    flags = _flags(record, roofs, links)
    return GpuVerdict.model_construct(
        gpu_id=gpu_id,
        state=record["state"],
        last_state=record["last_state"],
        text=record["text"],
        reason=reasons[0].code if reasons else None,
        worst_loss=worst_loss((own.loss, own.band.note is None) for own in roofs),
        flags=flags,
        reasons=reasons,
        roofs=roofs,
        links=links,
        drifts=tuple(map(_drift_shown, record["drifts"])),
        excuses=_EXCUSES.validate_python(record["excuses"]) if record["excuses"] else (),
        slow_since=_time(record["slow_since"]),
        slow_since_is_bound=record["slow_since_is_bound"],
        measured_at=_time(record["measured_at"]),
        next_step=next_step(record["state"], reasons, retest="retest" in flags),
        health=_HEALTH.validate_python(record["health"]) if record.get("health") else (),
    )


def judged_roof(row: Sequence[Any], reports: Sequence[tuple[str, datetime]], reference: Reference) -> JudgedRoof:
    """One gpu in one roof beside its peers."""
    _, value, recent, counted, value_runs, runs, *beyond = row
    band = reference.band
    z = (value - band.median) / band.scale if band.note is None else None
    found: dict[str, Any] = beyond[0] if beyond else {}
    return JudgedRoof(
        roof=reference.roof,
        unit=reference.unit,
        conditions=reference.conditions,
        value=value,
        runs=tuple([_run_shown(run, reports, reference) for run in runs]),
        recent=recent,
        band=band,
        loss=1 - value / band.median,
        z=z,
        p=None if z is None else two_sided(z, band.degrees),
        q=found.get("q"),
        standing=found.get("standing", "clear"),
        excused=found.get("excused", False),
        retest=found.get("retest", False),
        intermittent=found.get("intermittent", False),
        with_group=found.get("with_group"),
        counted=counted,
        value_runs=value_runs,
        runs_beyond=found.get("runs_beyond", 0),
        newest_beyond=found.get("newest_beyond", 0),
        slow_since=_time(found.get("slow_since")),
        slow_since_is_bound=found.get("slow_since_is_bound", False),
        slow_with=tuple([SettingChange(*change) for change in found.get("slow_with", ())]),
        behind=found.get("behind"),
    )


def worst_loss(roofs: Iterable[tuple[float, bool]]) -> float | None:
    """Largest loss among roofs with enough peers; where none has, among those that there are."""
    known = list(roofs)
    compared = [loss for loss, is_enough in known if is_enough] or [loss for loss, _ in known]
    return max(compared, default=None)


def _judged_roofs(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if not is_link(verdict.cohort.roof)]


def _is_retest(verdicts: Iterable[Verdict]) -> bool:
    return any(verdict.finding.retest for verdict in verdicts)


def _slow_since(subject: JudgedRoof | DriftShown) -> datetime | None:
    return subject.onset if isinstance(subject, DriftShown) else subject.slow_since


def _run(run: Run, reports: dict[str, int], times: list[tuple[str, datetime]]) -> list[Any]:
    report, reading, adjustment, fell_with_node = run
    number = reports.get(report.report_id)
    if number is None:
        number = reports[report.report_id] = len(times)
        times.append((report.report_id, report.ordered_at))
    return [number, reading.value, adjustment, reading.converged, *([True] if fell_with_node else [])]


def _run_shown(run: Sequence[Any], reports: Sequence[tuple[str, datetime]], reference: Reference) -> RunShown:
    number, value, adjustment, converged, *fell = run
    report_id, at = reports[number]
    band = reference.band
    is_beyond = band.note is None and value * adjustment < band.lowest
    return RunShown(report_id, at, value, is_beyond, adjustment, converged, bool(fell))


def _beyond(verdict: Verdict, state: GpuState, drift: Drift | None) -> dict[str, Any]:
    """What is said of a roof with a run beyond the limit."""
    found, finding = onset(verdict, drift), verdict.finding
    slow = found if verdict.is_accused else None
    is_judged = not is_link(verdict.cohort.roof)
    return {
        "q": verdict.q,
        "standing": _LEVEL_NAMES[finding.level],
        "excused": is_judged and verdict in state.excused,
        "retest": finding.retest,
        "intermittent": finding.intermittent,
        "with_group": finding.with_group,
        "runs_beyond": 0 if found is None else found.beyond,
        "newest_beyond": 0 if found is None else found.streak,
        "slow_since": None if slow is None else slow.since,
        "slow_since_is_bound": slow is not None and slow.is_bound,
        "slow_with": () if slow is None else [(change.factor, change.before, change.after) for change in slow.changes],
    }


def _drift(roof: RoofKey, drift: Drift, state: GpuState) -> list[Any]:
    counts = roof in state.drifted
    return [list(roof), *(getattr(drift, name) for name in _OF_DRIFT), counts, roof in state.excused_drifts]


def _drift_shown(row: Sequence[Any]) -> DriftShown:
    """A gpu's drift in one roof as it is shown."""
    roof, *own, counts, excused = row
    known = dict(zip(_OF_DRIFT, own, strict=True))
    times = {name: _time(known[name]) for name in ("onset", "first")}
    since = known.pop("since")
    return DriftShown(roof=RoofName(*roof), looks_since=since, counts=counts, excused=excused, **{**known, **times})


def _flags(
    record: Mapping[str, Any], roofs: Sequence[JudgedRoof], links: Sequence[JudgedRoof]
) -> tuple[VerdictFlag, ...]:
    flags: list[tuple[VerdictFlag, bool]] = [
        ("differs", record["differs"]),
        ("excused", record["excused"]),
        ("identity_conflict", record["identity_conflict"]),
        ("intermittent", any(own.intermittent for own in roofs)),
        ("retest", any(own.retest for own in roofs)),
        ("slow_link", any(own.standing != "clear" for own in links)),
    ]
    return tuple(flag for flag, holds in flags if holds)


def _time(time: Any) -> Any:  # noqa: ANN401 # None stays None
    """A time as it was written; before it is written it is one already."""
    return datetime.fromisoformat(time) if isinstance(time, str) else time
