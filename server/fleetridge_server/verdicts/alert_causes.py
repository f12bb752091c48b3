"""
Causes of alerts: what of an evaluation somebody has to hear of.

An alert is about a gpu that is an outlier, has drifted or cannot be right; a node or a rack that is slow as a whole,
once instead of each of its gpus; gpus that share a setting and are slow; a version that is slower than another; memory
whose repair waits or failed; gpus that are not there, once for each node; a fleet that became slower together. A
suspicion or a gap in the measurements is shown, and wakes nobody.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from fleetridge.quantities import percent
from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort, cohort_order
from fleetridge_server.engine.evaluation import Evaluation
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.explanation import (
    Explanation,
    Onset,
    place_onset,
    ranked_reasons,
    shared_causes,
    since_words,
    streak_words,
)
from fleetridge_server.engine.gpu_state import GpuState, State
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.health import ALERTING as HEALTH_ALERTING
from fleetridge_server.engine.nodes import Absence
from fleetridge_server.engine.notices import Notice, slow_setting_words
from fleetridge_server.engine.remedies import SharedCause, facts_words
from fleetridge_server.engine.slow_places import PlaceVerdict
from fleetridge_server.engine.slow_settings import SlowSetting
from fleetridge_server.engine.verdict import PlaceWord, Verdict
from fleetridge_server.engine.wording import beside_words, others_like_it, roof_words
from fleetridge_server.verdicts.sentence import excuse_shown, excuse_words

AlertKind = Literal["gpu", "node", "rack", "setting", "version", "cohort", "missing", "health"]

# State of an alert of what somebody is repairing: it stays open, and nobody is told of it.
SILENCED = "silenced"

ALERTING: frozenset[State] = frozenset({"outlier", "drifted", "implausible"})
_SLOW: frozenset[State] = frozenset({"outlier", "drifted"})

# Names beyond these say no more; the verdicts have them all.
_MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class AlertCause:
    """
    Something wrong, as one evaluation finds it.

    `state` is that of the gpu, else a word for what is wrong, or `SILENCED`. With the kind and the device the subject
    tells one alert from another.
    """

    kind: AlertKind
    subject: str
    state: str
    summary: str
    cluster: str | None = None
    node: str | None = None
    rack: str | None = None
    gpu: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


def alert_causes(evaluation: Evaluation, explained: Mapping[str, Sequence[Explanation]]) -> list[AlertCause]:
    """All that is wrong enough for an alert, each once."""
    states = evaluation.states
    settings = [slow for slow in evaluation.settings if _is_in_force(slow, states)]
    racks = _uncovered(_accused_places(evaluation.racks, states), settings)
    nodes = _uncovered(_accused_places(evaluation.nodes, states), [*settings, *racks])
    repaired_settings = _in_repair([slow for slow in evaluation.settings if slow not in settings], states)
    repaired_racks = _in_repair([rack for rack in evaluation.racks if rack not in racks], states)
    others = [*(node for node in evaluation.nodes if node not in nodes), *evaluation.excused_nodes]
    repaired_nodes = _uncovered(_in_repair(others, states), [*settings, *racks, *repaired_settings, *repaired_racks])
    covered = _covered([*settings, *racks, *nodes])
    silent = _covered([*settings, *racks, *nodes, *repaired_settings, *repaired_racks, *repaired_nodes])
    return [
        *_setting_causes(settings),
        *_place_causes("rack", racks, explained),
        *_place_causes("node", nodes, explained),
        *(_silenced(cause, states) for cause in _setting_causes(repaired_settings)),
        *(_silenced(cause, states) for cause in _place_causes("rack", repaired_racks, explained)),
        *(_silenced(cause, states) for cause in _place_causes("node", repaired_nodes, explained)),
        *(
            _gpu_cause(gpu_id, evaluation, explained.get(gpu_id, ()))
            for gpu_id, state in states.items()
            if state.state in ALERTING and not _is_covered(state, covered[gpu_id])
        ),
        *(
            _silenced(_gpu_cause(gpu_id, evaluation, ()), states)
            for gpu_id, state in states.items()
            if _is_repaired(state, ALERTING) and not _is_covered(state, silent[gpu_id])
        ),
        *_health_causes(evaluation),
        *(_absence_cause(absence, states) for absence in evaluation.absences),
        *_version_causes(evaluation.notices),
        *_fleet_causes(evaluation.notices),
    ]


def accused_roofs(state: GpuState) -> list[str]:
    """Roofs in which a gpu is accused or drifted, sorted."""
    return _roofs(state.accused, state.drifted)


def _roofs(accused: Iterable[Verdict], drifted: Iterable[RoofKey]) -> list[str]:
    return sorted(roof_words(roof) for roof in {verdict.cohort.roof for verdict in accused} | set(drifted))


def _accused_places(places: Iterable[PlaceVerdict], states: Mapping[str, GpuState]) -> list[PlaceVerdict]:
    """Places that are accused, some gpu of which no mark excuses."""
    return [slow for slow in places if slow.is_accused and _is_in_force(slow, states)]


def _is_in_force(slow: PlaceVerdict | SlowSetting, states: Mapping[str, GpuState]) -> bool:
    """Whether some gpu is slow with it that no mark excuses."""
    return any(gpu_id in states and states[gpu_id].state in _SLOW for gpu_id in slow.gpu_ids)


_Slow = TypeVar("_Slow", PlaceVerdict, SlowSetting)


def _in_repair(groups: Iterable[_Slow], states: Mapping[str, GpuState]) -> list[_Slow]:
    """Groups that are accused and nobody need hear of, as they are being repaired."""
    return [
        slow
        for slow in groups
        if slow.is_accused and any(_is_repaired(states[own], _SLOW) for own in slow.gpu_ids if own in states)
    ]


def _is_repaired(state: GpuState, without: frozenset[State]) -> bool:
    """Whether a gpu is being repaired that would be in one of some states without that."""
    return state.is_in_repair and state.last_state in without


def _silenced(cause: AlertCause, states: Mapping[str, GpuState]) -> AlertCause:
    """A cause that nobody is to be notified of until the first of its gpus was to be repaired."""
    gpu_ids = [cause.gpu] if cause.gpu is not None else cause.details["gpu_ids"]
    own = [states[gpu_id] for gpu_id in gpu_ids if gpu_id in states and states[gpu_id].is_in_repair]
    until = min((state.repaired_by for state in own if state.repaired_by is not None), default=None)
    decided = excuse_words(excuse_shown(own[0].excused_by[0], {}))
    silence = {"said": cause.state, "silenced_until": None if until is None else _written(until)}
    return replace(cause, state=SILENCED, summary=f"{cause.summary}; {decided}", details={**cause.details, **silence})


def _uncovered(places: Iterable[PlaceVerdict], groups: Iterable[PlaceVerdict | SlowSetting]) -> list[PlaceVerdict]:
    """Places some gpu of which is in none of the groups, which have alerts instead."""
    covered = _covered(groups)
    return [place for place in places if not all(place.cohort in covered[gpu_id] for gpu_id in place.gpu_ids)]


def _covered(places: Iterable[PlaceVerdict | SlowSetting]) -> defaultdict[str, set[Cohort]]:
    """Cohorts in which a gpu's node, rack or setting has the alert instead, by gpu."""
    covered: defaultdict[str, set[Cohort]] = defaultdict(set)
    for slow in places:
        for gpu_id in slow.gpu_ids:
            covered[gpu_id].add(slow.cohort)
    return covered


def _is_covered(state: GpuState, cohorts: set[Cohort]) -> bool:
    """Whether what a gpu is accused of most has an alert of its node or rack."""
    accused, drifted = _accusations(state)
    if accused:
        return accused[0].cohort in cohorts
    return any(cohort.roof in drifted for cohort in cohorts)


def _accusations(state: GpuState) -> tuple[Sequence[Verdict], Sequence[RoofKey]]:
    """By which a gpu is accused, and in which roofs it drifted: those that marks excuse where it is known by them."""
    return (state.excused, state.excused_drifts) if state.state == "known" else (state.accused, state.drifted)


def _place_causes(
    kind: PlaceWord, places: Iterable[PlaceVerdict], explained: Mapping[str, Sequence[Explanation]]
) -> Iterator[AlertCause]:
    """One cause for each place, of the roof in which it loses most; `places` come worst first."""
    shared = shared_causes(explained)
    by_place: dict[tuple[str, str], list[PlaceVerdict]] = defaultdict(list)
    for slow in places:
        by_place[slow.place.cluster, slow.place.name].append(slow)
    for (cluster, name), own in by_place.items():
        worst = own[0]
        cause, since = shared.get((worst.place, worst.cohort)), place_onset(worst, explained)
        yield AlertCause(
            kind=kind,
            subject=f"{cluster}/{name}",
            state="slow_together",
            summary=_place_summary(f"{kind} {name}", own, cause, since),
            cluster=cluster,
            node=name if kind == "node" else None,
            rack=name if kind == "rack" else None,
            details=_named(worst.gpu_ids)
            | {"loss": worst.loss, "roofs": sorted({roof_words(slow.cohort.roof) for slow in own})}
            | {"reason": None if cause is None else cause.code}
            | _since_details(since),
        )


def _setting_causes(settings: Iterable[SlowSetting]) -> Iterator[AlertCause]:
    """One cause for each setting, of the roof in which it costs most; settings come worst first."""
    by_setting: dict[Level, list[SlowSetting]] = defaultdict(list)
    for slow in settings:
        by_setting[slow.setting].append(slow)
    for setting, own in by_setting.items():
        worst = own[0]
        yield AlertCause(
            kind="setting",
            subject=f"{setting.factor}={setting.name}",
            state="slow_together",
            summary=f"{roof_words(worst.cohort.roof)}: {slow_setting_words(worst)}",
            details=_named(worst.gpu_ids)
            | {"loss": worst.loss, "cost_gpus": worst.cost_gpus}
            | {"roofs": sorted({roof_words(slow.cohort.roof) for slow in own})},
        )


def _version_causes(notices: Iterable[Notice]) -> Iterator[AlertCause]:
    """One cause for each change of a version, of the roof in which it costs most."""
    by_change: dict[tuple[Level, ...], list[Notice]] = defaultdict(list)
    for notice in notices:
        if notice.kind in ("factor_step", "mixed_ecc") and notice.cohort is not None and notice.effect is not None:
            by_change[notice.levels].append(notice)
    for levels, own in by_change.items():
        worst = min(own, key=lambda notice: notice.effect or 0.0)
        roofs = sorted({roof_words(notice.cohort.roof) for notice in own if notice.cohort is not None})
        yield AlertCause(
            kind="version",
            subject=" ".join((levels[0].factor, *(level.name for level in levels))),
            state=worst.kind,
            summary=f"{roofs[0] if worst.cohort is None else roof_words(worst.cohort.roof)}: {worst.text}",
            details=_named(worst.gpu_ids)
            | {"effect": worst.effect, "low": worst.low, "high": worst.high, "roofs": roofs}
            | {"cost_gpus": -len(worst.gpu_ids) * (worst.effect or 0.0)},
        )


def _place_summary(who: str, own: Sequence[PlaceVerdict], cause: SharedCause | None, since: Onset | None) -> str:
    """What a place loses, since when, what its gpus share, and what to do."""
    worst, others = own[0], len(own) - 1
    more = f" and in {others} more roof{'s' if others > 1 else ''}" if others else ""
    when = "" if since is None else f", {since_words(since.since, is_bound=since.is_bound, changes=since.changes)}"
    why = "look for what they share" if cause is None else f"{cause.text}{facts_words(cause.facts)}; {cause.next_step}"
    return (
        f"{who} is slow as a whole: it lies {percent(worst.loss)} below {others_like_it(worst.word, worst.of)} in "
        f"{roof_words(worst.cohort.roof)}{more}{when}; {why}"
    )


def _since_details(since: Onset | None) -> dict[str, Any]:
    if since is None:
        return {}
    return {"slow_since": _written(since.since), "slow_since_is_bound": since.is_bound}


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _fleet_causes(notices: Iterable[Notice]) -> Iterator[AlertCause]:
    for notice in notices:
        if notice.kind == "fleet_drift" and notice.cohort is not None:
            subject = " ".join(cohort_order(notice.cohort))
            details = _named(notice.gpu_ids) | {"roofs": [roof_words(notice.cohort.roof)]}
            summary = f"{roof_words(notice.cohort.roof)}: {notice.text}"
            yield AlertCause("cohort", subject, notice.kind, summary, details=details)


def _health_causes(evaluation: Evaluation) -> Iterator[AlertCause]:
    """One cause for each gpu whose memory waits for a repair or cannot be repaired, however fast it is."""
    for gpu_id, faults in evaluation.health.items():
        serious = [own for own in faults if own.code in HEALTH_ALERTING]
        if serious:
            newest = _newest(evaluation, gpu_id)
            node = None if newest is None else newest.node
            where = "" if node is None else f" on {node.name}"
            yield AlertCause(
                kind="health",
                subject=gpu_id,
                state=serious[0].code,
                summary=f"gpu {gpu_id}{where} needs action: {serious[0].text}; {serious[0].next_step}",
                cluster=None if node is None else node.cluster,
                node=None if node is None else node.name,
                rack=None if newest is None else newest.rack,
                gpu=gpu_id,
                details={"health": [own.code for own in faults]},
            )


def _newest(evaluation: Evaluation, gpu_id: str) -> JudgedReport | None:
    """The newest report behind a verdict on a gpu."""
    verdicts = evaluation.verdicts.get(gpu_id, ())
    return max((verdict.member.newest.report for verdict in verdicts), key=lambda own: own.ordered_at, default=None)


def _gpu_cause(gpu_id: str, evaluation: Evaluation, explained: Sequence[Explanation]) -> AlertCause:
    state = evaluation.states[gpu_id]
    reasons = [ranked.reason for ranked in ranked_reasons(explained)]
    since = next((own.onset for own in explained if own.verdict in state.accused[:1]), None)
    newest = _newest(evaluation, gpu_id)
    node = None if newest is None else newest.node
    accused, drifted = _accusations(state)
    above = [own.text for own in evaluation.health.get(gpu_id, ()) if own.code == "implausible_rate"]
    said = above if state.without_marks == "implausible" else [reason.said for reason in reasons[:1]]
    return AlertCause(
        kind="gpu",
        subject=gpu_id,
        state=state.without_marks,
        summary=_summary(gpu_id, node, state, since, said),
        cluster=None if node is None else node.cluster,
        node=None if node is None else node.name,
        rack=None if newest is None else newest.rack,
        gpu=gpu_id,
        details={
            "roofs": _roofs(accused, drifted),
            "loss": max((verdict.loss for verdict in accused), default=None),
            "reason": reasons[0].code if reasons else None,
        }
        | _since_details(since),
    )


def _summary(gpu_id: str, node: NodeName | None, state: GpuState, since: Onset | None, reasons: Sequence[str]) -> str:
    where = "" if node is None else f" on {node.name}"
    accused, drifted = _accusations(state)
    if state.without_marks == "implausible":
        what = "".join(f": {above}" for above in reasons[:1])
        return f"gpu {gpu_id}{where} reports more than its silicon can do{what}; do not trust its measurements"
    if accused:
        worst = accused[0]
        when = "" if since is None else f", beyond the limit {streak_words(since)}"
        if worst.finding.with_group is not None:
            when = f", with its {worst.finding.with_group}, which is slow as a whole"
        what = f"{beside_words(worst.loss)} its peers in {roof_words(worst.cohort.roof)}{when}"
    else:
        what = f"below its own baseline in {', '.join(_roofs(accused, drifted))}"
    return ": ".join((f"gpu {gpu_id}{where} is {what}", *reasons))


def _absence_cause(absence: Absence, states: Mapping[str, GpuState]) -> AlertCause:
    """What is not there, without what is being repaired; silenced where that is all."""
    others = tuple(own for own in absence.gpu_ids if own not in states or not states[own].is_in_repair)
    if absence.gpu_ids and not others and not absence.unnamed:
        return _silenced(_missing_cause(absence), states)
    return _missing_cause(replace(absence, gpu_ids=others))


def _missing_cause(absence: Absence) -> AlertCause:
    node = absence.node
    if absence.never_reported:
        what = f"node {node.name} is expected and never reported"
    else:
        count = len(absence.gpu_ids) + absence.unnamed
        what = f"{count} gpu{'s' if count != 1 else ''} of node {node.name} {'are' if count != 1 else 'is'} not there"
    return AlertCause(
        kind="missing",
        subject=f"{node.cluster}/{node.name}",
        state="missing",
        summary=f"{what}; see whether the node runs and its driver lists its gpus",
        cluster=node.cluster,
        node=node.name,
        details=_named(absence.gpu_ids) | {"unnamed": absence.unnamed, "never_reported": absence.never_reported},
    )


def _named(gpu_ids: Sequence[str]) -> dict[str, Any]:
    return {"gpus": len(gpu_ids), "gpu_ids": list(gpu_ids[:_MOST_NAMED])}
