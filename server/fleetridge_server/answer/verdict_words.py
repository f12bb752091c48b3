"""What is said of a gpu in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from fleetridge.quantities import percent
from fleetridge_server.answer.band_schemas import Band
from fleetridge_server.answer.drift_schemas import DriftShown
from fleetridge_server.answer.judged_roof_schemas import JudgedRoof
from fleetridge_server.answer.verdict_schemas import ExcuseShown
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.verdict.onset import Onset, SettingChange, since_words, streak_words
from fleetridge_server.verdict.reading_words import setting_words
from fleetridge_server.verdict.state import State

_ABSENT: Mapping[State, str] = {
    "missing": "it should be there and is not: the newest complete roster or the inventory says so",
    "unmeasured": "nothing of use was measured: see the outcome of its newest reports",
    "stale": "nothing was measured",
    "contended": "somebody else used the gpu during every recent measurement",
    "implausible": "a rate lies above what the silicon can do: it was measured wrongly",
}


def sentence(
    state: State,
    last_state: State | None,
    roofs: Sequence[JudgedRoof],
    drifts: Sequence[DriftShown],
    excuses: Sequence[ExcuseShown],
    measured_at: datetime | None = None,
) -> str:
    """
    One sentence on a gpu: what holds, by which number, and since when.

    Args:
        state: of the gpu.
        last_state: what its runs say, where the state is about missing or unusable measurements.
        roofs: judged ones.
        drifts: of the gpu.
        excuses: marks without which the state would be another.
        measured_at: time of its newest measurement.
    """
    if state not in _ABSENT:
        return _by_rates(state, roofs, drifts, excuses)
    absent = _ABSENT[state]
    if state == "stale":
        absent += " lately" if measured_at is None else f" {since_words(measured_at, is_bound=False)}"
    if last_state in (None, "insufficient_peers"):
        return absent
    return f"{absent}; when last measured {last_state}: {_by_rates(last_state, roofs, drifts, excuses)}"


def peers_words(band: Band) -> str:
    """Who a gpu was compared with: "8 peers", or "8 peers with driver 580"."""
    levels = " and ".join(setting_words(level.factor, level.name) for level in band.levels)
    return f"{band.n} peers with {levels}" if levels else f"{band.n} peers"


def onset_words(own: JudgedRoof) -> str:
    """In which runs and since when a gpu has been slow in a roof; empty where no run lies beyond the limit."""
    if own.slow_since is None:
        return ""
    inside = next((place for place, run in enumerate(own.runs) if run.beyond), 0)
    changes = tuple(SettingChange(change.factor, change.before, change.after) for change in own.slow_with)
    return streak_words(
        Onset(
            own.slow_since,
            own.slow_since_is_bound,
            own.newest_beyond,
            inside,
            own.runs_beyond,
            len(own.runs),
            changes,
        )
    )


def subject_of(
    state: State, roofs: Sequence[JudgedRoof], drifts: Sequence[DriftShown]
) -> JudgedRoof | DriftShown | None:
    """What the sentence on an accused gpu is about: its worst roof, or its worst drift; None where there is neither."""
    if state in ("outlier", "suspect"):
        accused = [own for own in roofs if own.standing != "clear" and not own.excused]
        return max(accused, key=lambda own: (own.standing == state, own.loss), default=None)
    if state == "drifted":
        return min((own for own in drifts if own.counts), key=lambda own: own.change or 0.0, default=None)
    return None


def _by_rates(
    state: State, roofs: Sequence[JudgedRoof], drifts: Sequence[DriftShown], excuses: Sequence[ExcuseShown]
) -> str:
    subject = subject_of(state, roofs, drifts)
    if isinstance(subject, JudgedRoof):
        return (
            f"{roof_words(subject.roof)} {percent(subject.loss)} below {peers_words(subject.band)}, "
            f"beyond the limit of {percent(subject.band.limit)} {onset_words(subject)}"
        )
    if isinstance(subject, DriftShown):
        since = "" if subject.onset is None else f" {since_words(subject.onset, is_bound=False)}"
        return f"{roof_words(subject.roof)} {percent(-(subject.change or 0.0))} below its own baseline{since}"
    if state == "insufficient_peers":
        return next((own.band.note for own in roofs if own.band.note is not None), "no judged roof to compare")
    if excuses:
        return f"{excuses[0].kind.replace('_', ' ')}, {excuses[0].reason}"
    if any(own.retest for own in roofs):
        return "its newest run alone lies beyond the limit: measure it again"
    return "within the limits of its peers"
