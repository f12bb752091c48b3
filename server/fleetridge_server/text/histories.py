"""One gpu's past as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fleetridge.quantities import MISSING, signed_percent, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.gpu_schemas import (
    ChangeShown,
    EpochShown,
    GpuHistoryAnswer,
    HistoryRun,
    RunRoof,
    VerdictChangeShown,
)
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.text.gpu_verdicts import drift_words
from fleetridge_server.text.verdicts import reason_code, state_word
from fleetridge_server.text.words import at, blocks, lines, more_follows

_EPOCHS = (Column("epoch"), Column("from", align="left"), Column("to", align="left"), Column("runs"))
_VERDICTS = (Column("said from"), Column("state", align="left"), Column("reason", align="left"), Column("loss"))
_RUNS = (
    Column("time"),
    Column("roof", align="left"),
    Column("value"),
    Column("MHz"),
    Column("W"),
    Column("°C"),
    Column("epoch"),
    Column("note", align="left"),
)

# As many as a screen holds; the JSON form has all.
_MOST_LINES = 10


def gpu_history(answer: GpuHistoryAnswer) -> str:
    """What was said, what changed, the drift of each roof, and the runs, newest first."""
    return blocks(
        lines([f"history of gpu {answer.gpu_id} ({answer.device.name}), as of {at(answer.as_of)}"]),
        _verdicts(answer.verdict_changes),
        _epochs(answer.epochs),
        lines(_change(change) for change in answer.changes[:_MOST_LINES]),
        lines(drift_words(drift) for drift in answer.drifts),
        text_table(_RUNS, [row for run in answer.runs for row in _run(run)]) if answer.runs else "no runs",
        more_follows(answer.next, "runs"),
    )


def _verdicts(changes: Sequence[VerdictChangeShown]) -> str:
    rows = [
        [
            _short(change.as_of),
            "no longer judged" if change.state is None else state_word(change.state),
            reason_code(change.reason),
            MISSING if change.loss is None else signed_percent(-change.loss),
        ]
        for change in changes[:_MOST_LINES]
    ]
    return text_table(_VERDICTS, rows, title="verdicts") if rows else "no verdict yet"


def _epochs(epochs: Sequence[EpochShown]) -> str:
    rows = [
        [str(epoch.number), _short(epoch.first), _short(epoch.last), str(epoch.runs)] for epoch in epochs[:_MOST_LINES]
    ]
    return text_table(_EPOCHS, rows) if rows else ""


def _change(change: ChangeShown) -> str:
    words = ", ".join(f"{name} {change.before[name]} → {change.after[name]}" for name in change.before)
    effects = ", ".join(f"{roof_words(own.roof)} {signed_percent(own.effect)}" for own in change.effects)
    return f"{_short(change.ordered_at)}: {words}{': ' if effects else ''}{effects}"


def _run(run: HistoryRun) -> Iterable[list[str]]:
    epoch = MISSING if run.epoch is None else str(run.epoch)
    if not run.roofs:
        said = run.outcome if run.reason is None else f"{run.outcome}: {run.reason}"
        yield [_short(run.ordered_at), said, MISSING, MISSING, MISSING, MISSING, epoch, ""]
    for roof in run.roofs:
        yield [
            _short(run.ordered_at),
            roof_words(roof.roof).replace("sustained", "sust."),
            significant(roof.value),
            _whole(roof.sm_clock_mhz if roof.roof.kind == "compute" else roof.memory_clock_mhz),
            _whole(roof.power_w),
            _whole(roof.temperature_c),
            epoch,
            _note(run, roof),
        ]


def _note(run: HistoryRun, roof: RunRoof) -> str:
    notes = [
        ("contended", bool(run.contended)),
        ("implausible", roof.implausible),
        ("not converged", roof.converged is False),
    ]
    return ", ".join(note for note, holds in notes if holds)


def _short(moment: datetime) -> str:
    return at(moment).removesuffix(" UTC")


def _whole(reading: float | None) -> str:
    return MISSING if reading is None else f"{reading:.0f}"
