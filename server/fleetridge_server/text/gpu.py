"""One gpu as text: its ridges, its verdict, its history."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from fleetridge.quantities import MISSING, binary_size, percent, signed_percent, significant
from fleetridge.terminal_text import shortened
from fleetridge.text_table import Column, key_values, text_table
from fleetridge_server.engine.wording import roof_words, setting_words, variant
from fleetridge_server.responses.gpu import (
    ChangeShown,
    EpochShown,
    GpuAnswer,
    GpuHistoryAnswer,
    HistoryRun,
    RunRoof,
    VerdictChangeShown,
)
from fleetridge_server.text.words import (
    at,
    blocks,
    facts,
    health_words,
    lines,
    more_follows,
    next_steps,
    old,
    reason_code,
    ridge_words,
    standing_word,
    state_word,
)
from fleetridge_server.verdicts.roof_shapes import GpuBandwidth, GpuRidge, ReportSummary, ShownRoof
from fleetridge_server.verdicts.sentence import onset_words
from fleetridge_server.verdicts.verdict_shapes import DriftShown, ExcuseShown, JudgedRoof, ReasonShown

_JUDGED = (
    Column("judged"), Column("value"), Column("median"), Column("loss"), Column("limit"), Column("z"), Column("q"),
    Column("n"), Column("verdict", align="left"),
)  # fmt: skip


def gpu_verdict(answer: GpuAnswer) -> str:
    """Verdict of an answer, or why there is none."""
    verdict = answer.verdict
    if verdict is None:
        why = answer.evaluation_note or (
            "no verdict: the newest evaluation says nothing of this gpu; it is newer than that, or a mark retires it"
        )
        return lines([why])
    judged = [*verdict.roofs, *verdict.links]
    flags = f" ({', '.join(verdict.flags)})" if verdict.flags else ""
    head = f"verdict: {verdict.state}{flags}, since {at(answer.verdict_since)}, as of {at(answer.evaluated_as_of)}"
    return blocks(
        lines([head, verdict.text, *next_steps(verdict)]),
        lines(health_words(verdict)),
        *(lines([_reason(found)]) for found in verdict.reasons),
        text_table(_JUDGED, [_judged(own) for own in judged]) if judged else "",
        lines(_slow_roofs(judged)),
        lines([*_levels(judged), *map(drift_words, verdict.drifts), *_excuses(verdict.excuses)]),
    )


def roof_verdict(own: JudgedRoof) -> str:
    """What is said of a gpu in one roof, in a word."""
    if own.band.note is not None:
        return "few peers"
    return "excused" if own.excused else standing_word(own)


def drift_words(drift: DriftShown) -> str:
    """One roof beside its own past."""
    name = roof_words(drift.roof)
    if drift.baseline is None:
        return f"{name}: learning its baseline, {drift.looks} looks so far"
    base = f"{name}: {drift.status}, {signed_percent(drift.recent_change)} beside its baseline of "
    onset = "" if drift.onset is None else f", changed from {at(drift.onset)} on"
    return f"{base}{significant(drift.baseline)} over {drift.looks} looks{onset}"


def _reason(found: ReasonShown) -> str:
    """A reason, the readings that it rests on unless its sentence says them, and in which roofs."""
    roofs = ", ".join(roof_words(roof) for roof in found.roofs)
    readings = facts(found.facts, beside=found.text)
    code = reason_code(found.code)
    prefix = "" if code in found.text else f"{code}: "
    return f"{prefix}{found.text}{readings} [{roofs}]"


def _judged(own: JudgedRoof) -> list[str]:
    return [
        roof_words(own.roof).replace("sustained", "sust."),
        significant(own.value),
        significant(own.band.median),
        percent(own.loss),
        MISSING if own.band.note is not None else percent(own.band.limit),
        MISSING if own.z is None else significant(own.z),
        MISSING if own.q is None else significant(own.q),
        str(own.band.n),
        roof_verdict(own),
    ]


def _slow_roofs(judged: Sequence[JudgedRoof]) -> list[str]:
    """In which runs and since when the gpu is slow, roof by roof; those that say the same at once."""
    roofs: dict[str, list[str]] = {}
    for own in judged:
        if own.slow_since is not None:
            roofs.setdefault(onset_words(own), []).append(roof_words(own.roof))
    return [f"beyond the limit {words}: {', '.join(named)}" for words, named in roofs.items()]


def _levels(judged: Sequence[JudgedRoof]) -> list[str]:
    levels = {setting_words(level.factor, level.name) for own in judged for level in own.band.levels}
    return [f"held against gpus with {' and '.join(sorted(levels))} only"] if levels else []


def _excuses(excuses: Iterable[ExcuseShown]) -> Iterable[str]:
    for excuse in excuses:
        mark = MISSING if excuse.mark_id is None else str(excuse.mark_id)
        end = "no end" if excuse.until is None else f"until {at(excuse.until)}"
        yield f"mark {mark}: {excuse.kind.replace('_', ' ')}, {excuse.reason} (made {at(excuse.made_at)}, {end})"


_EPOCHS = (Column("epoch"), Column("from", align="left"), Column("to", align="left"), Column("runs"))
_VERDICTS = (Column("from"), Column("state", align="left"), Column("reason", align="left"), Column("loss"))
_RUNS = (
    Column("time"), Column("roof", align="left"), Column("value"), Column("MHz"), Column("W"), Column("°C"),
    Column("epoch"), Column("note", align="left"),
)  # fmt: skip

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
            run_note(run, roof),
        ]


def run_note(run: HistoryRun, roof: RunRoof) -> str:
    """What to know before trusting a run's value; empty where there is nothing."""
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


_RIDGES = (
    Column("ridge"), Column("pi", "TFLOP/s"), Column("by"), Column("beta", "GB/s"), Column("by"),
    Column("I*", "FLOP/B"), Column("peers"), Column("reports"),
)  # fmt: skip
_BANDWIDTHS = (Column("memory"), Column("beta", "GB/s"), Column("by"), Column("peers"), Column("reports"))
_OTHERS = (Column("shown, not compared"), Column("value"), Column("unit", align="left"), Column("age"))
_REPORTS = (Column("report"), *(Column(name, align="left") for name in ("time", "outcome", "why")))

# What is left of 80 columns beside the id of a report, its time and its outcome.
_WHY = 14


def gpu(answer: GpuAnswer) -> str:
    """Who and where the gpu is, what it reaches, and its newest reports."""
    return blocks(
        key_values(_identity(answer), title=f"gpu {answer.gpu_id}"),
        gpu_verdict(answer),
        text_table(
            _RIDGES,
            [_ridge(ridge) for ridge in answer.ridges],
            title="by: deviation from the peers' median; reports: how many the value rests on",
        )
        if answer.ridges
        else "",
        text_table(_BANDWIDTHS, [_bandwidth(beta) for beta in answer.bandwidths]) if answer.bandwidths else "",
        lines(_too_few(answer)),
        text_table(_OTHERS, [_other(roof) for roof in answer.other_roofs]) if answer.other_roofs else "",
        text_table(_REPORTS, [_report(report) for report in answer.reports], title="newest reports"),
    )


def _identity(answer: GpuAnswer) -> list[tuple[str, str]]:
    index = "" if answer.index is None else f", index {answer.index}"
    slices = [part for part in (answer.mig_profile, answer.partition) if part is not None]
    return [
        ("device", ", ".join([answer.device.name, *slices])),
        ("node", f"{answer.node or MISSING} in cluster {answer.cluster}{index}"),
        ("PCI bus id", answer.pci_bus_id or MISSING),
        ("memory", binary_size(answer.memory_bytes)),
        ("SMs", MISSING if answer.sm_count is None else str(answer.sm_count)),
        ("last seen", at(answer.last_seen)),
        ("newest report", _latest(answer.latest) + (", not judged yet" if answer.not_judged_yet else "")),
        ("flags", ", ".join(answer.flags) or "none"),
    ]


def _latest(latest: ReportSummary | None) -> str:
    if latest is None:
        return MISSING
    why = [word for word in (latest.reason, latest.detail) if word is not None]
    contended = ", somebody else used the gpu meanwhile" if latest.contended else ""
    return ": ".join([latest.outcome, *why]) + contended


def _ridge(ridge: GpuRidge) -> list[str]:
    return [
        ridge_words(ridge),
        significant(ridge.pi_tflops),
        signed_percent(ridge.pi_deviation),
        significant(ridge.beta_gbps),
        signed_percent(ridge.beta_deviation),
        significant(ridge.ridge_flop_per_byte),
        str(ridge.peers),
        str(ridge.reports),
    ]


def _bandwidth(beta: GpuBandwidth) -> list[str]:
    return [
        f"beta {variant(beta.dtype, beta.regime)}",
        significant(beta.beta_gbps),
        signed_percent(beta.beta_deviation),
        str(beta.peers),
        str(beta.reports),
    ]


def _other(roof: ShownRoof) -> list[str]:
    level = "" if roof.level == "device" else f"{roof.level} "
    name = f"{level}{roof.kernel or roof.kind} {variant(roof.dtype, roof.regime, roof.out_dtype)}"
    return [name, significant(roof.value), roof.unit, old(roof.age_s)]


def _report(report: ReportSummary) -> list[str]:
    why = "contended" if report.contended else report.reason or ""
    return [str(report.report_id), at(report.ordered_at).removesuffix(" UTC"), report.outcome, shortened(why, _WHY)]


def _too_few(answer: GpuAnswer) -> list[str]:
    notes = [ridge.note for ridge in answer.ridges] + [beta.note for beta in answer.bandwidths]
    return sorted({note for note in notes if note is not None})
