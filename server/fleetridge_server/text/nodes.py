"""One node as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fleetridge.quantities import MISSING
from fleetridge.terminal_text import shortened
from fleetridge.text_table import Column, key_values, text_table
from fleetridge_server.answer.node_schemas import NodeAnswer, NodeGpu, Roster
from fleetridge_server.answer.schemas import ReportSummary
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.text import verdicts
from fleetridge_server.text.stragglers import LEAST_COST, straggler_words
from fleetridge_server.text.words import at, blocks, counted, lines, short_id

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
        verdicts.told(_named(answer.gpus)),
        lines(_stragglers(answer.stragglers)),
        lines(_roster_words(answer.roster)),
        text_table(_REPORTS, [_report(report) for report in answer.reports]) if answer.reports else "",
    )


def _identity(answer: NodeAnswer) -> list[tuple[str, str]]:
    devices = Counter(gpu.device for gpu in answer.gpus)
    return [
        ("cluster", answer.cluster),
        ("labels", ", ".join(f"{name}={value}" for name, value in sorted(answer.labels.items())) or MISSING),
        ("devices", ", ".join(f"{count} × {device}" for device, count in sorted(devices.items())) or MISSING),
        ("verdicts", f"{verdicts.counts(answer.verdicts) or MISSING}{_evaluated(answer)}"),
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
    verdict = MISSING if gpu.verdict is None else verdicts.state_word(gpu.verdict.state)
    return [gpu.gpu_id, index, shortened(state, _STATE), _short(gpu), verdict]


def _short(gpu: NodeGpu) -> str:
    """Time to the minute, without the year, so that whole ids fit beside it."""
    return MISSING if gpu.ordered_at is None else f"{gpu.ordered_at:%m-%d %H:%M}"


def _evaluated(answer: NodeAnswer) -> str:
    return "" if answer.evaluated_as_of is None else f" (as of {at(answer.evaluated_as_of)})"


def _named(gpus: Iterable[NodeGpu]) -> Iterable[verdicts.Named]:
    for gpu in gpus:
        if gpu.verdict is not None:
            index = "" if gpu.index is None else f"#{gpu.index} "
            short = short_id(gpu.gpu_id) if gpu.index is None else f"#{gpu.index}"
            yield verdicts.Named(f"{index}{gpu.gpu_id}", short, gpu.verdict)


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
    return words
