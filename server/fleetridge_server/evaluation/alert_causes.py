"""
Causes of alerts: what of an evaluation somebody has to hear of.

Pure. A gpu that is an outlier, has drifted or cannot be right; a node or a rack that is slow as a whole, once instead
of each of its gpus; memory whose repair waits or failed, however fast its gpu is; gpus that are not there, once for
each node; a fleet that became slower together. A suspicion or a gap in the measurements is shown, and wakes nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fleetridge.quantities import percent
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
from fleetridge_server.engine.health import ALERTING as HEALTH_ALERTING
from fleetridge_server.engine.nodes import Absence
from fleetridge_server.engine.notices import Notice
from fleetridge_server.engine.remedies import SharedCause, facts_words
from fleetridge_server.engine.slow_places import PlaceVerdict
from fleetridge_server.engine.state import GpuState, State
from fleetridge_server.engine.verdict import PlaceWord
from fleetridge_server.engine.wording import beside_words, others_like_it, roof_words
from fleetridge_server.verdicts.alerts import AlertCause

ALERTING: frozenset[State] = frozenset({"outlier", "drifted", "implausible"})
_SLOW: frozenset[State] = frozenset({"outlier", "drifted"})

# Names beyond these say no more; the verdicts have them all.
_MOST_NAMED = 100


def alert_causes(evaluation: Evaluation, explained: Mapping[str, Sequence[Explanation]]) -> list[AlertCause]:
    """All that is wrong enough for an alert, each once."""
    states = evaluation.states
    racks = _told(evaluation.racks, states)
    in_racks = _covered(racks)
    nodes = [
        node
        for node in _told(evaluation.nodes, states)
        if not all(node.cohort in in_racks[gpu_id] for gpu_id in node.gpu_ids)
    ]
    covered = _covered([*racks, *nodes])
    return [
        *_place_causes("rack", racks, explained),
        *_place_causes("node", nodes, explained),
        *(
            _gpu_cause(gpu_id, evaluation, explained.get(gpu_id, ()))
            for gpu_id, state in states.items()
            if state.state in ALERTING and not _is_covered(state, covered[gpu_id])
        ),
        *_health_causes(evaluation),
        *(_absence_cause(absence) for absence in evaluation.absences),
        *_fleet_causes(evaluation.notices),
    ]


def accused_roofs(state: GpuState) -> list[str]:
    """Roofs in which a gpu is accused or drifted, sorted."""
    accused = {verdict.cohort.roof for verdict in state.accused} | set(state.drifted)
    return sorted(roof_words(roof) for roof in accused)


def _told(places: Iterable[PlaceVerdict], states: Mapping[str, GpuState]) -> list[PlaceVerdict]:
    """Places that are accused, some gpu of which no mark excuses."""
    return [
        slow
        for slow in places
        if slow.is_accused and any(gpu_id in states and states[gpu_id].state in _SLOW for gpu_id in slow.gpu_ids)
    ]


def _covered(places: Iterable[PlaceVerdict]) -> defaultdict[str, set[Cohort]]:
    """Cohorts in which a gpu's node or rack has the alert instead, by gpu."""
    covered: defaultdict[str, set[Cohort]] = defaultdict(set)
    for slow in places:
        for gpu_id in slow.gpu_ids:
            covered[gpu_id].add(slow.cohort)
    return covered


def _is_covered(state: GpuState, cohorts: set[Cohort]) -> bool:
    """Whether what a gpu is accused of most has an alert of its node or rack."""
    if state.accused:
        return state.accused[0].cohort in cohorts
    return any(cohort.roof in state.drifted for cohort in cohorts)


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
    return {"slow_since": since.since.isoformat().replace("+00:00", "Z"), "slow_since_is_bound": since.is_bound}


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
    above = [own.text for own in evaluation.health.get(gpu_id, ()) if own.code == "implausible_rate"]
    said = above if state.state == "implausible" else [reason.said for reason in reasons[:1]]
    return AlertCause(
        kind="gpu",
        subject=gpu_id,
        state=state.state,
        summary=_summary(gpu_id, node, state, since, said),
        cluster=None if node is None else node.cluster,
        node=None if node is None else node.name,
        rack=None if newest is None else newest.rack,
        gpu=gpu_id,
        details={
            "roofs": accused_roofs(state),
            "loss": max((verdict.loss for verdict in state.accused), default=None),
            "reason": reasons[0].code if reasons else None,
        }
        | _since_details(since),
    )


def _summary(gpu_id: str, node: NodeName | None, state: GpuState, since: Onset | None, reasons: Sequence[str]) -> str:
    where = "" if node is None else f" on {node.name}"
    if state.state == "implausible":
        what = "".join(f": {above}" for above in reasons[:1])
        return f"gpu {gpu_id}{where} reports more than its silicon can do{what}; do not trust its measurements"
    if state.accused:
        worst = state.accused[0]
        when = "" if since is None else f", beyond the limit {streak_words(since)}"
        if worst.finding.with_place is not None:
            when = f", with its {worst.finding.with_place}, which is slow as a whole"
        what = f"{beside_words(worst.loss)} its peers in {roof_words(worst.cohort.roof)}{when}"
    else:
        what = f"below its own baseline in {', '.join(accused_roofs(state))}"
    return ": ".join((f"gpu {gpu_id}{where} is {what}", *reasons))


def _absence_cause(absence: Absence) -> AlertCause:
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
