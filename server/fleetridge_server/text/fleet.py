"""The fleet, its alerts and its marks as text."""

from collections.abc import Sequence

from fleetridge.quantities import MISSING, percent, signed_percent, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.wording import counted, others_like_it, roof_words
from fleetridge_server.fleet.changes import LongUnmeasured
from fleetridge_server.responses.alert import AlertList, AlertShown, MarkList, MarkShown
from fleetridge_server.responses.fleet import ActionNeeded, Changes, Coverage, DeviceVerdicts, FleetAnswer, WorstNode
from fleetridge_server.text import words
from fleetridge_server.text.words import ago, at, blocks, counts, lines, more_follows, slow_since, state_word
from fleetridge_server.verdicts.alert_causes import SILENCED
from fleetridge_server.verdicts.evaluation_shapes import SlowPlace, StragglerShown

# Healthy gpus differ by a per cent or two, and somebody is always the slowest.
LEAST_COST = 0.02


def straggler_words(cost: StragglerShown) -> str:
    """A job over a group: what it loses, to which gpu, and what leaving out the worst would win."""
    who = "all gpus" if cost.name is None else f"{cost.scope} {cost.name}"
    said = (
        f"a job over {who} loses {percent(cost.loss)} to its slowest gpu {cost.slowest_gpu_id} "
        f"({significant(cost.slowest)} {cost.unit} in {roof_words(cost.roof)})"
    )
    if cost.best is None:
        return said
    fewer = "it" if cost.best.left_out == 1 else f"the worst {cost.best.left_out}"
    return f"{said}; leaving {fewer} out wins {percent(cost.best.gain)}"


_MARKS = (
    Column("mark"), Column("kind", align="left"), Column("covers", align="left"), Column("loss"),
    Column("until", align="left"), Column("by", align="left"), Column("reason", align="left"),
)  # fmt: skip


def alert_list(answer: AlertList) -> str:
    """Each alert in a sentence with how long it has been open."""
    if not answer.alerts:
        return "no alerts"
    return blocks(
        lines([f"alerts as of {at(answer.as_of)}, the newest first"]),
        *(lines([_alert(alert, answer)]) for alert in answer.alerts),
        more_follows(answer.next, "alerts"),
    )


def mark_list(answer: MarkList) -> str:
    """Marks in a table."""
    if not answer.marks:
        return "no marks"
    rows = [_mark(mark) for mark in answer.marks]
    return blocks(
        text_table(_MARKS, rows, title=f"marks as of {at(answer.as_of)}, the newest first"),
        more_follows(answer.next, "marks"),
    )


def _alert(alert: AlertShown, answer: AlertList) -> str:
    if alert.resolved_at is None:
        state = f"{'silenced, ' * (alert.state == SILENCED)}open for {ago(alert.opened_at, answer.as_of)}"
    else:
        state = f"open from {at(alert.opened_at)} to {at(alert.resolved_at)}"
    return f"{alert.id} {alert.kind} ({alert.device}), {state}: {alert.summary}"


def _mark(mark: MarkShown) -> list[str]:
    driver = None if mark.driver is None else f"driver {mark.driver}"
    scope = [word for word in (mark.gpu_id, mark.node, mark.rack, mark.cluster, driver) if word is not None]
    end = mark.until if mark.ended_at is None else mark.ended_at
    return [
        str(mark.id),
        mark.kind.replace("_", " "),
        ", ".join(scope),
        MISSING if mark.loss is None else percent(mark.loss),
        "for ever" if end is None else at(end).removesuffix(" UTC"),
        mark.author,
        mark.reason,
    ]


_DEVICES = (Column("device"), Column("gpus"), Column("verdicts", align="left"), Column("evaluated", align="left"))
_NODES = (
    Column("worst nodes"),
    Column("cluster", align="left"),
    Column("gpus"),
    Column("worst", align="left"),
    Column("#"),
    Column("loss"),
    Column("reason", align="left"),
)

# Slow nodes and racks that are told one by one.
MOST_PLACES = 10
_MOST_ALERTS = 10
_MOST_UNMEASURED = 3


def fleet(answer: FleetAnswer) -> str:
    """The sentence, then what is behind it."""
    return blocks(
        lines([f"fleet as of {at(answer.as_of)}: {answer.sentence}"]),
        text_table(_DEVICES, [_device(device) for device in answer.devices]) if answer.devices else "",
        text_table(_NODES, [_node(node) for node in answer.worst_nodes]) if answer.worst_nodes else "",
        lines(
            [
                *(_slow("rack", place) for place in answer.slow_racks[:MOST_PLACES]),
                *more_places("rack", answer.slow_racks),
                *(_slow("node", place) for place in answer.slow_nodes[:MOST_PLACES]),
                *more_places("node", answer.slow_nodes),
            ]
        ),
        lines(_needed(own) for own in answer.action_needed),
        lines(_coverage(answer.coverage, answer)),
        lines(_changes(answer.changes)),
        lines(straggler_words(cost) for cost in answer.stragglers),
    )


def _needed(own: ActionNeeded) -> str:
    where = f" on {', '.join(own.nodes)}" if own.nodes else ""
    return f"action needed: {own.code.replace('_', ' ')} of {counted(own.gpus, 'gpu')}{where} → {own.next_step}"


def _device(device: DeviceVerdicts) -> list[str]:
    return [device.name, str(device.gpus), counts(device.verdicts) or MISSING, at(device.evaluated_as_of)]


def _node(node: WorstNode) -> list[str]:
    worst = node.worst
    return [
        node.name,
        node.cluster,
        str(node.troubled),
        state_word(worst.state, worst.last_state),
        MISSING if worst.index is None else str(worst.index),
        MISSING if worst.loss is None else signed_percent(-worst.loss),
        words.reason_code(worst.reason),
    ]


def more_places(kind: str, places: Sequence[SlowPlace]) -> list[str]:
    """How many places are not shown one by one, in words; empty where all are."""
    left = len(places) - MOST_PLACES
    return [f"and {counted(left, f'more {kind}')}"] if left > 0 else []


def _slow(kind: str, place: SlowPlace) -> str:
    others = len(place.roofs) - 1
    more = f" and in {counted(others, 'more roof')}" if others > 0 else ""
    since = "" if place.slow_since is None else f", {slow_since(place)}"
    why = "" if place.cause_text is None else f"; {place.cause_text}{words.facts(place.facts)}"
    level = "is slow as a whole" if place.accused else "is noted, not accused yet"
    return (
        f"{kind} {place.name} in cluster {place.cluster} {level}: it lies {percent(place.loss)} below "
        f"{others_like_it(kind, place.compared)} in {roof_words(place.roof)}{more}{since}{why} → {place.next_step}"
    )


def _coverage(coverage: Coverage, answer: FleetAnswer) -> list[str]:
    said = [f"measured in the last {coverage.days} days: {coverage.measured} of {coverage.gpus} gpus"]
    longest = [_unmeasured(gpu, answer) for gpu in coverage.longest_unmeasured[:_MOST_UNMEASURED]]
    return [*said, *(["longest unmeasured:", *longest] if longest else [])]


def _unmeasured(gpu: LongUnmeasured, answer: FleetAnswer) -> str:
    when = "never" if gpu.measured_at is None else f"{ago(gpu.measured_at, answer.as_of)} ago"
    return f"{gpu.gpu_id} on {gpu.node or MISSING}: {when}"


def _changes(changes: Changes) -> list[str]:
    counts_of_alerts = (
        f"{counted(changes.opened, 'alert')} opened, {changes.resolved} resolved, {changes.still_open} open"
    )
    alerts = [
        f"{'opened' if alert.resolved_at is None else 'resolved'}: {alert.summary}"
        for alert in changes.alerts[:_MOST_ALERTS]
    ]
    steps = [
        f"{counted(step.gpus, 'gpu')}: {step.before or 'new'} → {step.after or 'no longer judged'}"
        for step in changes.verdicts
    ]
    return [f"since {at(changes.since)}: {counts_of_alerts}", *alerts, *steps]
