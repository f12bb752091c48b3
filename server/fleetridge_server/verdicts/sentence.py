"""
A verdict in words: the sentence on a gpu; and the engine's reasons, limits, levels and roofs as they are shown.

Pure: the engine's values in, text and shapes of `verdicts.verdict_shapes` out.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from fleetridge.quantities import percent
from fleetridge.report import RoofKey
from fleetridge_server.engine.explanation import (
    Explanation,
    Onset,
    RankedReason,
    ranked_reasons,
    since_words,
    streak_words,
)
from fleetridge_server.engine.gpu_state import Mark, MarkKind, State
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.health import HEALTH_STEPS, HealthFault
from fleetridge_server.engine.limits import Limits
from fleetridge_server.engine.ridge import too_few
from fleetridge_server.engine.rule import MEASUREMENT_WINDOW
from fleetridge_server.engine.slow_places import RackName
from fleetridge_server.engine.verdict import PlaceWord
from fleetridge_server.engine.wording import beside_words, counted, roof_words, setting_words
from fleetridge_server.verdicts.roof_shapes import LevelName, RoofName
from fleetridge_server.verdicts.verdict_shapes import (
    Band,
    DriftShown,
    ExcuseShown,
    HealthShown,
    JudgedRoof,
    PlaceShown,
    ReasonShown,
)

_ABSENT: Mapping[State, str] = {
    "missing": "it should be there and is not: its driver, the newest complete roster or the inventory says so",
    "unmeasured": "nothing of use was measured: see the outcome of its newest reports",
    "stale": "nothing was measured",
    "contended": "somebody else used the gpu during every recent measurement",
    "implausible": "a rate lies above what the silicon can do: it was measured wrongly",
}

_DECIDED: Mapping[MarkKind, str] = {
    "known": "known, being repaired",
    "accepted": "accepted",
    "false_positive": "marked as a false positive",
    "retired": "retired",
}

_A_PAIR = 2


def sentence(
    state: State,
    last_state: State | None,
    roofs: Sequence[JudgedRoof],
    drifts: Sequence[DriftShown],
    excuses: Sequence[ExcuseShown],
    measured_at: datetime | None = None,
    slow_links: Sequence[JudgedRoof] = (),
    above: Sequence[str] = (),
) -> str:
    """
    One sentence on a gpu: what holds, by which number, and since when.

    `last_state` is what its runs say where the state is about missing or unusable measurements; without the `excuses`
    the state would be another, and where it is `known` it would be `last_state`. `slow_links` are told whatever the
    state is: a slow link is no slow gpu. `above` is what lies above what the silicon can do, in words.
    """
    if state == "known":
        return _known_words(last_state, roofs, drifts, excuses)
    if state not in _ABSENT:
        return "; ".join(
            [_by_rates(state, roofs, drifts, excuses), *(f"its link {_accusation_words(own)}" for own in slow_links)]
        )
    absent = _ABSENT[state]
    if state == "implausible" and above:
        absent = f"{'; '.join(above)}: it was measured wrongly"
    if state == "stale":
        absent += " lately" if measured_at is None else f" {since_words(measured_at, is_bound=False)}"
    if last_state in (None, "insufficient_peers"):
        return absent
    return f"{absent}; when last measured {last_state}: {_by_rates(last_state, roofs, drifts, excuses)}"


_STEPS: Mapping[State, str] = {
    "missing": "see whether the node runs and its driver lists its gpus",
    "unmeasured": "see how its newest reports ended; `fleetridge-agent doctor` on the node says what stands in the way",
    "stale": "see whether the agent still runs on its node and reaches the server",
    "contended": "measure it while nobody else uses it (`fleetridge-agent run --wait`)",
    "implausible": HEALTH_STEPS["implausible_rate"],
}

# What a gpu did when it was last measured is of no use where it is not there, or was measured wrongly.
_STATES_FIRST: frozenset[State] = frozenset({"missing", "implausible"})


def next_step(state: State, reasons: Sequence[ReasonShown], *, retest: bool) -> str | None:
    """The one thing to do next, so that no two contradict each other; None where there is nothing to do."""
    if reasons and state not in _STATES_FIRST:
        return reasons[0].next_step
    if state in _STEPS:
        return _STEPS[state]
    return "measure it again" if retest else None


def compared_words(band: Band) -> str:
    """Whose median a gpu is held against: "8 gpus", or "8 gpus with driver 580"; mostly it is one of them."""
    levels = " and ".join(setting_words(level.factor, level.name) for level in band.levels)
    gpus = counted(band.n, "gpu")
    return f"{gpus} with {levels}" if levels else gpus


def onset_words(own: JudgedRoof) -> str:
    """In which runs and since when a gpu has been slow in a roof; empty where no run lies beyond the limit."""
    if own.slow_since is None:
        return ""
    inside = next((place for place, run in enumerate(own.runs) if run.beyond), 0)
    streak = own.newest_beyond, inside, own.runs_beyond, len(own.runs), own.slow_with
    return streak_words(Onset(own.slow_since, own.slow_since_is_bound, *streak))


def subject_of(
    state: State, roofs: Sequence[JudgedRoof], drifts: Sequence[DriftShown], *, is_known: bool = False
) -> JudgedRoof | DriftShown | None:
    """
    What the sentence on an accused gpu is about: its worst roof, or its worst drift; None where there is neither.

    Of those that no mark excuses, or (`is_known`) that marks excuse.
    """
    if state in ("outlier", "suspect"):
        accused = [own for own in roofs if own.standing != "clear" and own.excused is is_known]
        return max(accused, key=lambda own: (own.standing == state, own.loss), default=None)
    if state == "drifted":
        counted = [own for own in drifts if (own.excused if is_known else own.counts)]
        return min(counted, key=lambda own: own.change or 0.0, default=None)
    return None


def excuse_words(excuse: ExcuseShown) -> str:
    """What was decided, until when and why: "known, being repaired until 2026-12-01 12:00 UTC: the fan is ordered"."""
    end = "" if excuse.until is None else f" until {excuse.until:%Y-%m-%d %H:%M} UTC"
    return f"{_DECIDED[excuse.kind]}{end}: {excuse.reason}"


def _known_words(
    last_state: State | None,
    roofs: Sequence[JudgedRoof],
    drifts: Sequence[DriftShown],
    excuses: Sequence[ExcuseShown],
) -> str:
    """Who is known to be slow, or gone, by which decision, and what it would be called without that."""
    decided = "; ".join(map(excuse_words, excuses[:1])) or "known"
    if last_state is None:
        return decided
    if last_state in _ABSENT:
        return f"{decided}; without that {last_state}: {_ABSENT[last_state]}"
    return f"{decided}; without that {last_state}: {_by_rates(last_state, roofs, drifts, (), is_known=True)}"


def _by_rates(
    state: State,
    roofs: Sequence[JudgedRoof],
    drifts: Sequence[DriftShown],
    excuses: Sequence[ExcuseShown],
    *,
    is_known: bool = False,
) -> str:
    subject = subject_of(state, roofs, drifts, is_known=is_known)
    if isinstance(subject, JudgedRoof):
        return _accusation_words(subject)
    if isinstance(subject, DriftShown):
        since = "" if subject.onset is None else f" {since_words(subject.onset, is_bound=False)}"
        return f"{roof_words(subject.roof)} {percent(-(subject.change or 0.0))} below its own baseline{since}"
    if state == "insufficient_peers":
        return _few_peers_words(roofs, excuses)
    if excuses:
        return excuse_words(excuses[0])
    again = max((own for own in roofs if own.retest), key=lambda own: own.loss, default=None)
    return "within the limits of its peers" if again is None else _retest_words(again)


def _retest_words(own: JudgedRoof) -> str:
    before = own.runs_beyond - 1
    limit, runs = f"beyond the limit of {percent(own.band.limit)}", f"of its newest {counted(len(own.runs), 'run')}"
    which = (
        f"the newest alone {runs} lies {limit}" if not before else f"the newest and {before} more {runs} lie {limit}"
    )
    return f"{roof_words(own.roof)}: {which}; measure it again"


def _few_peers_words(roofs: Sequence[JudgedRoof], excuses: Sequence[ExcuseShown]) -> str:
    """What is said beside few peers: that it differs from them where it does, never that it is at fault."""
    note = next((own.band.note for own in roofs if own.band.note is not None), "no judged roof to compare")
    worst = max(roofs, key=lambda own: own.behind or 0.0, default=None)
    if worst is None or worst.behind is None:
        return note
    if excuses:
        return f"{excuse_words(excuses[0])}; {note}"
    return f"{behind_words(worst, worst.behind)}; {note}, so that nobody can say which of them is as it should be"


def behind_words(own: JudgedRoof, behind: float) -> str:
    """How far a gpu lies behind the fastest of its few peers."""
    other = "the other" if own.band.n == _A_PAIR else "the fastest"
    few = "two" if own.band.n == _A_PAIR else str(own.band.n)
    return f"of these {few} gpus this one is {percent(behind)} slower than {other} in {roof_words(own.roof)}"


def _accusation_words(own: JudgedRoof) -> str:
    half = "the faster half of " if own.band.of_faster_half else ""
    loss = f"{roof_words(own.roof)} {beside_words(own.loss)} the median of {half}{compared_words(own.band)}"
    if own.with_group == "setting":
        return f"{loss}; accused with all gpus that share its setting and are slow together"
    if own.with_group is not None:
        return f"{loss}; accused with its {own.with_group}, which is slow as a whole"
    limit = percent(own.band.limit)
    if own.loss > own.band.limit:
        return f"{loss}, beyond the limit of {limit} {onset_words(own)}"
    return f"{loss}, which is within the limit of {limit}, but beyond it {onset_words(own)}"


def reasons_shown(explained: Sequence[Explanation]) -> tuple[ReasonShown, ...]:
    """Reasons of all a gpu's accused roofs, the strongest first; one that several roofs share is shown once."""
    return tuple([_reason(ranked) for ranked in ranked_reasons(explained)]) if explained else ()


def health_shown(faults: Iterable[HealthFault]) -> tuple[HealthShown, ...]:
    """What is wrong with a gpu whatever its rates are, as it is shown."""
    return tuple(HealthShown(own.code, own.text, own.next_step) for own in faults)


@lru_cache(maxsize=1024)
def roof_name(roof: RoofKey) -> RoofName:
    """A roof's key as it is shown."""
    return RoofName(*roof)


def unit_of(roof: RoofKey) -> str:
    """Unit of a roof's values."""
    return "TFLOP/s" if roof.kind == "compute" else "GB/s"


def band(limits: Limits) -> Band:
    """Limits as they are shown."""
    return Band(
        n=limits.n,
        median=limits.median,
        scale=limits.scale.value,
        scale_source=limits.scale.source,
        degrees=limits.scale.degrees,
        pooled_n=limits.pooled_n,
        floor=limits.floor,
        gate=limits.gate,
        limit=limits.limit,
        lowest=limits.median * (1 - limits.limit),
        wide=limits.wide,
        levels=level_names(limits.levels),
        note=_note(limits),
        of_faster_half=limits.of_faster_half,
    )


def _note(limits: Limits) -> str | None:
    """Why there is no verdict, if there is none."""
    if not limits.is_recent:
        return f"nobody was measured in the last {MEASUREMENT_WINDOW.days} days; old values stand beside one another"
    return too_few(limits.n)


def level_names(levels: Iterable[Level]) -> tuple[LevelName, ...]:
    """Levels as they are shown."""
    return tuple(LevelName(level.factor, level.name) for level in levels)


def _reason(ranked: RankedReason) -> ReasonShown:
    reason, place = ranked.reason, ranked.reason.place
    kind: PlaceWord = "rack" if isinstance(place, RackName) else "node"
    return ReasonShown(
        code=reason.code,
        text=reason.said,
        next_step=reason.next_step,
        cause=reason.is_cause,
        facts=reason.facts,
        roofs=tuple(roof_name(verdict.cohort.roof) for verdict in ranked.verdicts),
        place=None if place is None else PlaceShown(kind, place.cluster, place.name),
        explains=reason.explains if place is None or reason.shared is None else reason.shared.explains,
    )


def excuse_shown(mark: Mark, marks: Mapping[Mark, int]) -> ExcuseShown:
    """A mark without which a state would be another."""
    return ExcuseShown(marks.get(mark), mark.kind, mark.reason, mark.made_at, mark.until)
