"""The verdict on one gpu as text: what holds, why, and the numbers to check it by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetridge.quantities import MISSING, percent, signed_percent, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.drift_schemas import DriftShown
from fleetridge_server.answer.gpu_schemas import GpuAnswer
from fleetridge_server.answer.judged_roof_schemas import JudgedRoof
from fleetridge_server.answer.reason_schemas import ReasonShown
from fleetridge_server.answer.verdict_schemas import ExcuseShown, GpuVerdict
from fleetridge_server.answer.verdict_words import onset_words
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.text.verdicts import facts, reason_code
from fleetridge_server.text.words import at, blocks, lines
from fleetridge_server.verdict.reading_words import setting_words

_JUDGED = (
    Column("judged"),
    Column("value"),
    Column("median"),
    Column("loss"),
    Column("limit"),
    Column("z"),
    Column("q"),
    Column("n"),
    Column("standing", align="left"),
)


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
    head = f"verdict: {verdict.state}{flags}, said since {at(answer.verdict_since)}, as of {at(answer.evaluated_as_of)}"
    return blocks(
        lines([head, verdict.text]),
        *(lines([_reason(found)]) for found in verdict.reasons),
        text_table(_JUDGED, [_judged(own) for own in judged]) if judged else "",
        lines(_slow_roofs(judged)),
        lines([*_levels(judged), *_drifts(verdict), *_excuses(verdict.excuses)]),
    )


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
    return f"{prefix}{found.text}{readings} [{roofs}] → {found.next_step}"


def _judged(own: JudgedRoof) -> list[str]:
    standing = "excused" if own.excused else own.standing
    return [
        roof_words(own.roof).replace("sustained", "sust."),
        significant(own.value),
        significant(own.band.median),
        percent(own.loss),
        MISSING if own.band.note is not None else percent(own.band.limit),
        MISSING if own.z is None else significant(own.z),
        MISSING if own.q is None else significant(own.q),
        str(own.band.n),
        standing if own.band.note is None else "few peers",
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


def _drifts(verdict: GpuVerdict) -> list[str]:
    return [drift_words(drift) for drift in verdict.drifts]


def _excuses(excuses: Iterable[ExcuseShown]) -> Iterable[str]:
    for excuse in excuses:
        mark = MISSING if excuse.mark_id is None else str(excuse.mark_id)
        end = "no end" if excuse.until is None else f"until {at(excuse.until)}"
        yield f"mark {mark}: {excuse.kind.replace('_', ' ')}, {excuse.reason} (made {at(excuse.made_at)}, {end})"
