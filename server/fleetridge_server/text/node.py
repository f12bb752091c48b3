"""Nodes as text."""

from collections import Counter
from collections.abc import Sequence

from fleetridge.quantities import MISSING, signed_percent
from fleetridge.report import LOST
from fleetridge.terminal_text import shortened
from fleetridge.text_table import Column, key_values, text_table
from fleetridge_server.engine.wording import counted
from fleetridge_server.responses.node import NodeAnswer, NodeGpu, NodeList, NodeRow, Roster
from fleetridge_server.text import words
from fleetridge_server.text.fleet import LEAST_COST, straggler_words
from fleetridge_server.text.words import ago, at, blocks, counts, lines, more_follows, state_word
from fleetridge_server.verdicts.evaluation_shapes import StragglerShown
from fleetridge_server.verdicts.roof_shapes import ReportSummary

_NODES = (
    Column("node"),
    Column("cluster", align="left"),
    Column("gpus"),
    Column("verdicts", align="left"),
    Column("worst", align="left"),
    Column("#"),
    Column("loss"),
    Column("seen"),
)


def node_list(answer: NodeList) -> str:
    """Nodes with their worst gpu."""
    if not answer.nodes:
        return "no nodes"
    return blocks(
        text_table(
            _NODES,
            [_node(node, answer) for node in answer.nodes],
            title=f"nodes as of {at(answer.as_of)}; seen: age of the newest report",
        ),
        lines(sentence for node in answer.nodes for sentence in (*_gone(node), *_needed(node))),
        more_follows(answer.next, "nodes"),
    )


def _node(node: NodeRow, answer: NodeList) -> list[str]:
    worst = node.worst
    said = "never reported" if node.never_reported else counts(node.verdicts) or MISSING
    return [
        node.name,
        node.cluster,
        str(node.gpus),
        said,
        MISSING if worst is None else state_word(worst.state, worst.last_state),
        MISSING if worst is None or worst.index is None else str(worst.index),
        MISSING if worst is None or worst.loss is None else signed_percent(-worst.loss),
        ago(node.last_seen, answer.as_of),
    ]


def _gone(node: NodeRow) -> list[str]:
    gone = [f"{node.name}: missing {', '.join(node.missing)}"] if node.missing else []
    if node.unnamed:
        gone.append(f"{node.name}: {counted(node.unnamed, 'gpu')} fewer than the inventory expects")
    return gone


def _needed(node: NodeRow) -> list[str]:
    return [
        f"{node.name}: action needed: {code.replace('_', ' ')} of {counted(gpus, 'gpu')}"
        for code, gpus in node.action_needed.items()
    ]


_GPUS = (
    Column("gpu"),
    Column("#"),
    Column("newest report", align="left"),
    Column("time", align="left"),
    Column("verdict", align="left"),
)
_REPORTS = (Column("about the node"), Column("outcome", align="left"), Column("why", align="left"))

# What is left of 80 columns beside a UUID, an index and a time.
_STATE = 13


def node(answer: NodeAnswer) -> str:
    """The node, its gpus by index, and what it said of itself."""
    return blocks(
        key_values(_identity(answer), title=f"node {answer.name}"),
        lines(answer.notes),
        text_table(_GPUS, [_gpu(gpu) for gpu in answer.gpus]) if answer.gpus else "no gpu reports from here",
        words.troubled_gpus(
            words.named_gpu(gpu.gpu_id, gpu.index, gpu.verdict) for gpu in answer.gpus if gpu.verdict is not None
        ),
        lines(_stragglers(answer.stragglers)),
        lines(_roster_words(answer.roster)),
        text_table(_REPORTS, [_report(report) for report in answer.reports]) if answer.reports else "",
    )


def _identity(answer: NodeAnswer) -> list[tuple[str, str]]:
    devices = Counter(gpu.device for gpu in answer.gpus)
    evaluated = "" if answer.evaluated_as_of is None else f" (as of {at(answer.evaluated_as_of)})"
    return [
        ("cluster", answer.cluster),
        ("labels", ", ".join(f"{name}={value}" for name, value in sorted(answer.labels.items())) or MISSING),
        ("devices", ", ".join(f"{count} × {device}" for device, count in sorted(devices.items())) or MISSING),
        ("verdicts", f"{words.counts(answer.verdicts) or MISSING}{evaluated}"),
        ("missing", _missing(answer)),
        ("last seen", at(answer.last_seen)),
    ]


def _missing(answer: NodeAnswer) -> str:
    unnamed = [f"{answer.unnamed} more that the inventory expects"] if answer.unnamed else []
    return ", ".join([*answer.missing, *unnamed]) or ("none" if answer.roster else "unknown: no complete roster")


def _gpu(gpu: NodeGpu) -> list[str]:
    said = "contended" if gpu.contended else gpu.reason or gpu.outcome
    state = "retired" if gpu.retired else "missing" if gpu.missing else said
    index = MISSING if gpu.index is None else str(gpu.index)
    verdict = MISSING if gpu.verdict is None else words.state_word(gpu.verdict.state)
    return [gpu.gpu_id, index, shortened(state, _STATE), _short(gpu), verdict]


def _short(gpu: NodeGpu) -> str:
    """Time to the minute, without the year, so that whole ids fit beside it."""
    return MISSING if gpu.ordered_at is None else f"{gpu.ordered_at:%m-%d %H:%M}"


def _stragglers(costs: Sequence[StragglerShown]) -> list[str]:
    """What the slowest gpu costs, in the roof where it costs most, if it is worth a word."""
    worst = max(costs, key=lambda cost: cost.loss, default=None)
    return [] if worst is None or worst.loss < LEAST_COST else [straggler_words(worst)]


def _report(report: ReportSummary) -> list[str]:
    why = [word for word in (report.reason, report.detail) if word is not None]
    return [at(report.ordered_at), report.outcome, ": ".join(why)]


def _roster_words(roster: Roster | None) -> list[str]:
    if roster is None:
        return []
    silent = [entry for entry in roster.gpus if not entry.reported]
    words = [f"the newest complete roster, of {at(roster.seen)}, lists {counted(len(roster.gpus), 'gpu')}"]
    if silent:
        names = ", ".join(entry.gpu_id or entry.pci_bus_id or f"index {entry.index}" for entry in silent)
        words.append(f"listed there and never reported: {names}")
    lost = [entry.gpu_id or entry.pci_bus_id or f"index {entry.index}" for entry in roster.gpus if entry.state == LOST]
    if lost:
        words.append(f"lost, by what the driver says: {', '.join(lost)}")
    return words
