"""One node as text."""

from __future__ import annotations

from collections import Counter

from fleetridge.quantities import MISSING
from fleetridge.terminal_text import shortened
from fleetridge.text_table import Column, key_values, text_table
from fleetridge_server.answer.node_schemas import NodeAnswer, NodeGpu, Roster
from fleetridge_server.answer.schemas import ReportSummary
from fleetridge_server.text.words import at, blocks, lines

_GPUS = (Column("gpu"), Column("#"), Column("newest report", align="left"), Column("time", align="left"))
_REPORTS = (Column("about the node"), Column("outcome", align="left"), Column("why", align="left"))

# What is left of 80 columns beside a UUID, an index and a time.
_STATE = 16


def node(answer: NodeAnswer) -> str:
    """The node, its gpus by index, and what it said of itself."""
    return blocks(
        key_values(_identity(answer), title=f"node {answer.name}"),
        lines(answer.notes),
        text_table(_GPUS, [_gpu(gpu) for gpu in answer.gpus]) if answer.gpus else "no gpu reports from here",
        lines(_roster_words(answer.roster)),
        text_table(_REPORTS, [_report(report) for report in answer.reports]) if answer.reports else "",
    )


def _identity(answer: NodeAnswer) -> list[tuple[str, str]]:
    devices = Counter(gpu.device for gpu in answer.gpus)
    return [
        ("cluster", answer.cluster),
        ("labels", ", ".join(f"{name}={value}" for name, value in sorted(answer.labels.items())) or MISSING),
        ("devices", ", ".join(f"{count} × {device}" for device, count in sorted(devices.items())) or MISSING),
        ("missing", ", ".join(answer.missing) or ("none" if answer.roster else "unknown: no complete roster")),
        ("last seen", at(answer.last_seen)),
    ]


def _gpu(gpu: NodeGpu) -> list[str]:
    said = "contended" if gpu.contended else gpu.reason or gpu.outcome
    state = "missing" if gpu.missing else said
    index = MISSING if gpu.index is None else str(gpu.index)
    return [gpu.gpu_id, index, shortened(state, _STATE), at(gpu.ordered_at).removesuffix(" UTC")]


def _report(report: ReportSummary) -> list[str]:
    why = [word for word in (report.reason, report.detail) if word is not None]
    return [at(report.ordered_at), report.outcome, ": ".join(why)]


def _roster_words(roster: Roster | None) -> list[str]:
    if roster is None:
        return []
    silent = [entry for entry in roster.gpus if not entry.reported]
    count = "1 gpu" if len(roster.gpus) == 1 else f"{len(roster.gpus)} gpus"
    words = [f"the newest complete roster, of {at(roster.seen)}, lists {count}"]
    if silent:
        names = ", ".join(entry.gpu_id or entry.pci_bus_id or f"index {entry.index}" for entry in silent)
        words.append(f"listed there and never reported: {names}")
    return words
