"""Words of all texts: times, counts, spreads, verdicts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from fleetridge.quantities import MISSING, age, percent, signed_percent, significant
from fleetridge.terminal_text import visible, wrapped
from fleetridge.text_table import DEFAULT_WIDTH, Column, text_table
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.explanation import since_words
from fleetridge_server.engine.gpu_state import ACCUSING, State, what_is_said
from fleetridge_server.engine.rule import LINK_LEVELS
from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.engine.wording import Fact, fact_words, roof_words, setting_words, variant
from fleetridge_server.responses.verdict import EvaluatedAnswer, VerdictShown
from fleetridge_server.responses.workload import RidgeWorkloads
from fleetridge_server.verdicts.evaluation_shapes import NoticeShown, SlowPlace
from fleetridge_server.verdicts.roof_shapes import FleetRidge, GpuRidge
from fleetridge_server.verdicts.verdict_shapes import (
    CohortShown,
    GpuVerdict,
    JudgedRoof,
    PlaceShown,
    ReasonShown,
)

# The first group of a UUID, "GPU-1f2e3d4c": enough to tell the gpus of a fleet apart by eye.
_SHORT_ID = 12


def blocks(*parts: str) -> str:
    """Parts of a text with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def lines(sentences: Iterable[str]) -> str:
    """Sentences below one another, broken where they are too long."""
    return "\n".join(line for sentence in sentences for line in wrapped(visible(sentence), DEFAULT_WIDTH))


def more_follows(following: str | None, what: str) -> str:
    """Words for a list that goes on."""
    return "" if following is None else f"more {what} follow: raise limit, or send `next` of the JSON form as after"


def at(moment: datetime | None) -> str:
    """Time to the minute, in UTC."""
    return MISSING if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def ago(moment: datetime | None, as_of: datetime) -> str:
    """How long before an answer's time something was."""
    return MISSING if moment is None else age(as_of - moment)


def old(age_s: float | None) -> str:
    """Age from seconds."""
    return MISSING if age_s is None else age(timedelta(seconds=age_s))


def short_id(gpu_id: str) -> str:
    """Start of a gpu's id, for tables that also say its node and index."""
    return gpu_id if len(gpu_id) <= _SHORT_ID else f"{gpu_id[:_SHORT_ID]}…"


def spread(values: Distribution | None) -> str:
    """Quartiles, "840–851"."""
    return MISSING if values is None else f"{significant(values.q1)}–{significant(values.q3)}"


def middle(values: Distribution | None) -> str:
    """Median."""
    return significant(None if values is None else values.median)


def share(fraction: float | None) -> str:
    """Part of the published figure."""
    return percent(fraction)


def ridge_words(ridge: FleetRidge | GpuRidge | RidgeWorkloads) -> str:
    """What is multiplied, and in which regime: "bfloat16 burst"."""
    return variant(ridge.dtype, ridge.regime, ridge.out_dtype, fast_accumulation=ridge.fast_accumulation)


class _Conditioned(Protocol):
    @property
    def conditions(self) -> Conditions: ...


def differing_conditions(cohorts: Sequence[_Conditioned]) -> list[str]:
    """For each group of gpus, those of its conditions that are not the same in all groups: ", 1g.12gb"."""
    conditions = [asdict(cohort.conditions) for cohort in cohorts]
    differing = [name for name in Conditions.__dataclass_fields__ if len({each[name] for each in conditions}) > 1]
    return ["".join(f", {_condition(name, each[name])}" for name in differing) for each in conditions]


def _condition(name: str, value: str | int | None) -> str:
    words = {
        "memory_gib": f"{value} GiB",
        "sm_count": f"{value} SMs",
        "protocol_version": f"protocol {value}",
        "fill": f"fill {value}",
    }
    if value is None:
        return f"no {name.replace('_', ' ')}"
    return words.get(name, str(value))


class NamedGpu(NamedTuple):
    """A gpu as a paragraph names it, its short name in a list of its neighbours, and what is said of it."""

    name: str
    short: str
    verdict: VerdictShown


def named_gpu(gpu_id: str, index: int | None, verdict: VerdictShown, node: str | None = None) -> NamedGpu:
    """A gpu by its node, where that is to be said, its index and its id."""
    number = None if index is None else f"#{index}"
    name = " ".join(part for part in (node, number, gpu_id) if part is not None)
    return NamedGpu(name, number or short_id(gpu_id), verdict)


_BANDS = (
    Column("held against"), Column("gpus"), Column("median"), Column("scale"), Column("limit"),
    Column("lowest ok"),
)  # fmt: skip

# More than a screen of sentences is read by nobody; the pages of the JSON form have all.
_MOST_GPUS = 10

_MOST_NOTICES = 10


def state_word(state: State, last_state: State | None = None) -> str:
    """State as a cell of a table; with what a gpu was accused of when it was last measured: "stale (outlier)"."""
    word = "few peers" if state == "insufficient_peers" else state
    return f"{word} ({last_state})" if last_state in ACCUSING else word


def counts(verdicts: Mapping[State, int]) -> str:
    """Gpus by state in words: "1 outlier, 7 ok"."""
    return ", ".join(f"{count} {state_word(state)}" for state, count in verdicts.items())


def evaluation(answer: EvaluatedAnswer, verdicts: Mapping[State, int]) -> str:
    """What was found and when, or why nothing was."""
    if answer.evaluated_as_of is None:
        return lines([answer.evaluation_note or ""])
    return lines([f"verdicts as of {at(answer.evaluated_as_of)}: {counts(verdicts) or 'no gpus'}"])


def notices(found: Sequence[NoticeShown]) -> str:
    """What is said once of many gpus; what is said of several roofs but for its figures is said once."""
    alike: dict[tuple[str, str], list[NoticeShown]] = {}
    for notice in found:
        alike.setdefault((notice.kind, notice.text.replace(_by(notice), "")), []).append(notice)
    shown = [_notice(own[0]) if len(own) == 1 else _together(words, own) for (_, words), own in alike.items()]
    left = len(shown) - _MOST_NOTICES
    return lines([*shown[:_MOST_NOTICES], *([f"and {left} more notices"] if left > 0 else [])])


def bands(cohorts: Sequence[CohortShown]) -> str:
    """What gpus are held against, in the unit of each roof."""
    rows: list[list[str]] = []
    for cohort, conditions in zip(cohorts, differing_conditions(cohorts), strict=True):
        for band in cohort.bands:
            levels = "".join(f", {setting_words(level.factor, level.name)}" for level in band.levels)
            rows.append(
                [
                    f"{roof_words(cohort.roof)}{conditions}{levels}".replace("sustained", "sust."),
                    str(band.n),
                    significant(band.median),
                    percent(band.scale / band.median),
                    "–" if band.note is not None else percent(band.limit),
                    "–" if band.note is not None else significant(band.lowest),
                ]
            )
    return text_table(_BANDS, rows) if rows else ""


def troubled_gpus(named: Iterable[NamedGpu]) -> str:
    """Gpus that need a look, each with its strongest reason and the next step; those of a slow place at once."""
    known = list(named)
    accused = [own for own in known if _is_troubled(own.verdict)]
    ill = [f"{own.name}: {words}" for own in known for words in health_words(own.verdict)]
    groups: dict[PlaceShown | str, list[NamedGpu]] = {}
    for own in accused:
        groups.setdefault(_place(own.verdict) or own.name, []).append(own)
    shown = list(groups.items())[:_MOST_GPUS]
    left = len(accused) - sum(len(own) for _, own in shown)
    sentences = [
        _gpus_of_place(place, own) if isinstance(place, PlaceShown) else _one_gpu(own[0]) for place, own in shown
    ]
    return blocks(
        *sentences,
        lines([f"and {left} more gpus of this page"] if left else []),
        lines(
            [*ill[:_MOST_GPUS], *([f"and {len(ill) - _MOST_GPUS} more that need action"] if ill[_MOST_GPUS:] else [])]
        ),
    )


def facts(found: Sequence[Fact], *, beside: str = "") -> str:
    """Readings in parentheses, but for those that the sentence beside them says; nothing where none is left."""
    unsaid = [fact_words(fact.reading, fact.own, fact.peers) for fact in found if not _is_said(fact, beside)]
    return f" ({'; '.join(unsaid)})" if unsaid else ""


def reason(found: ReasonShown) -> str:
    """A reason with the readings that it rests on."""
    return f"{found.text}{facts(found.facts, beside=found.text)}"


def next_steps(verdict: VerdictShown | GpuVerdict) -> list[str]:
    """The one thing to do next, if there is one."""
    return [] if verdict.next_step is None else [f"→ {verdict.next_step}"]


def health_words(verdict: VerdictShown | GpuVerdict) -> list[str]:
    """What needs action whatever the rates are; a step that was said already is not said again."""
    said = {verdict.next_step}
    found: list[str] = []
    for own in verdict.health:
        step = "" if own.next_step in said else f" → {own.next_step}"
        said.add(own.next_step)
        found.append(f"action needed: {own.text}{step}")
    return found


def standing_word(own: JudgedRoof) -> str:
    """What a gpu is accused of in a roof; a slow link is no slow gpu."""
    return "slow link" if own.roof.level in LINK_LEVELS and own.standing != "clear" else own.standing


def reason_code(code: str | None) -> str:
    """A reason's code as a cell of a table."""
    return MISSING if code is None else code.replace("_", " ")


def slow_since(own: SlowPlace | VerdictShown) -> str:
    """Since when by its runs; there is such a time."""
    return MISSING if own.slow_since is None else since_words(own.slow_since, is_bound=own.slow_since_is_bound)


def _is_said(fact: Fact, beside: str) -> bool:
    """Whether a sentence says a reading already, or there is nothing of the peers to set beside it."""
    return not fact.peers or (fact.own in beside and fact.peers in beside)


def _is_troubled(verdict: VerdictShown) -> bool:
    is_accused = what_is_said(verdict.state, verdict.last_state) in ACCUSING
    return is_accused or verdict.state in ("missing", "implausible")


def _place(verdict: VerdictShown) -> PlaceShown | None:
    """The node or rack that a gpu shares its loss with, where that is its first reason."""
    return verdict.reasons[0].place if verdict.reasons else None


def _one_gpu(own: NamedGpu) -> str:
    verdict = own.verdict
    strongest = [*(reason(found) for found in verdict.reasons[:1]), *next_steps(verdict)]
    head = f"{own.name}: {verdict.state}, {verdict.text} (verdict since {at(verdict.since)})"
    return lines([head, " ".join(strongest)] if strongest else [head])


def _gpus_of_place(place: PlaceShown, gpus: Sequence[NamedGpu]) -> str:
    """Gpus of a slow node or rack: how they are, the worst of them, and what they share."""
    worst = max(gpus, key=lambda own: own.verdict.loss or 0.0)
    states = Counter(own.verdict.state for own in gpus)
    since = min(own.verdict.since for own in gpus)
    head = (
        f"{place.kind} {place.name}, slow as a whole: {counts(states)} ({', '.join(own.short for own in gpus)}), "
        f"verdict since {at(since)}; the worst is {worst.name}: {worst.verdict.text}"
    )
    return lines([head, " ".join([reason(worst.verdict.reasons[0]), *next_steps(worst.verdict)])])


def _notice(notice: NoticeShown) -> str:
    roof = "" if notice.roof is None else f"{roof_words(notice.roof)}: "
    return f"{notice.kind.replace('_', ' ')}: {roof}{notice.text}"


def _together(words: str, alike: Sequence[NoticeShown]) -> str:
    """Notices that differ in their roofs and figures only."""
    roofs = [
        f"{roof_words(notice.roof)}{_by(notice).removeprefix(' by')}" for notice in alike if notice.roof is not None
    ]
    return f"{alike[0].kind.replace('_', ' ')}: {words}: {', '.join(roofs)}"


def _by(notice: NoticeShown) -> str:
    """How far the sides of a notice lie apart, as its sentence says it."""
    if notice.effect is None or notice.low is None or notice.high is None:
        return ""
    effect, low, high = map(signed_percent, (notice.effect, notice.low, notice.high))
    return f" by {effect} ({low} to {high})"
