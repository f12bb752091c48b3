"""The fleet as text."""

from __future__ import annotations

from fleetridge.quantities import MISSING, percent, signed_percent
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.fleet_schemas import (
    Changes,
    Coverage,
    DeviceVerdicts,
    FleetAnswer,
    LongUnmeasured,
    WorstNode,
)
from fleetridge_server.answer.place_schemas import SlowPlace
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.text import verdicts
from fleetridge_server.text.stragglers import straggler_words
from fleetridge_server.text.verdicts import counts, slow_since, state_word
from fleetridge_server.text.words import ago, at, blocks, counted, lines

_DEVICES = (
    Column("device"),
    Column("gpus"),
    Column("verdicts", align="left"),
    Column("evaluated", align="left"),
)
_NODES = (
    Column("worst nodes"),
    Column("cluster", align="left"),
    Column("gpus"),
    Column("worst", align="left"),
    Column("#"),
    Column("loss"),
    Column("reason", align="left"),
)

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
                *(_slow("rack", place) for place in answer.slow_racks),
                *(_slow("node", place) for place in answer.slow_nodes),
            ]
        ),
        lines(_coverage(answer.coverage, answer)),
        lines(_changes(answer.changes)),
        lines(straggler_words(cost) for cost in answer.stragglers),
    )


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
        verdicts.reason_code(worst.reason),
    ]


def _slow(kind: str, place: SlowPlace) -> str:
    others = len(place.roofs) - 1
    more = f" and in {counted(others, 'more roof')}" if others > 0 else ""
    since = "" if place.slow_since is None else f", {slow_since(place)}"
    why = "" if place.cause_text is None else f"; {place.cause_text}{verdicts.facts(place.facts)}"
    return (
        f"{kind} {place.name} in cluster {place.cluster} is slow as a whole: its {place.gpus} gpus lie "
        f"{percent(place.loss)} below their peers in {roof_words(place.roof)}{more}{since}{why} → {place.next_step}"
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
