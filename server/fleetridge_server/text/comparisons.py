"""A comparison as text."""

from __future__ import annotations

from collections.abc import Sequence

from fleetridge.quantities import MISSING, percent, signed_percent, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.comparison_schemas import Comparison, GroupShown, RoofComparison
from fleetridge_server.answer.notice_schemas import UpgradeShown
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.text.words import at, blocks, counted, differing_conditions, lines, spread
from fleetridge_server.verdict.reading_words import reading_words, value_words

_PAIRED = (Column("before"), Column("after", align="left"), Column("gpus"), Column("change"), Column("interval"))
_GROUPS = (
    Column("group"),
    Column("gpus"),
    Column("median"),
    Column("quartiles"),
    Column("differs by"),
    Column("95 % interval"),
)


def comparison(answer: Comparison) -> str:
    """Each roof: what the change did to the gpus that met it, and the groups of now."""
    conditions = differing_conditions(answer.roofs)
    return blocks(
        lines([f"{answer.device.name} by {_factor(answer.by)}, as of {at(answer.as_of)}"]),
        *(_roof(roof, words, answer.by) for roof, words in zip(answer.roofs, conditions, strict=True)),
        "" if answer.roofs else "nothing to compare: no valid report has a judged roof here",
        lines(_explained(answer.roofs)),
    )


def _factor(by: str) -> str:
    """What gpus are grouped by, in words; a label or a place keeps its name."""
    return by if ":" in by else reading_words(by)


def _roof(roof: RoofComparison, conditions: str, by: str) -> str:
    are = "is" if roof.left_out == 1 else "are"
    more = f"{counted(roof.left_out, 'smaller group')} {are} left out" if roof.left_out else ""
    return blocks(
        lines([f"{roof_words(roof.roof)}{conditions}, {roof.unit}"]),
        text_table(_PAIRED, [_paired(effect, by) for effect in roof.paired], title="paired: each gpu with itself")
        if roof.paired
        else "",
        text_table(_GROUPS, [_group(group, roof, by) for group in roof.groups], title="between groups: other gpus"),
        more,
    )


def _paired(effect: UpgradeShown, by: str) -> list[str]:
    interval = f"{signed_percent(effect.low)} to {signed_percent(effect.high)} ({percent(effect.confidence)})"
    before, after = (value_words(by, value) for value in (effect.before, effect.after))
    return [before, after, str(effect.n), signed_percent(effect.effect), interval]


def _group(group: GroupShown, roof: RoofComparison, by: str) -> list[str]:
    if group.effect is None:
        differs = "reference" if group.level == roof.reference else MISSING
        interval = "" if group.note is None else "too few"
    else:
        differs = signed_percent(group.effect)
        interval = f"{signed_percent(group.low)} to {signed_percent(group.high)}"
    values = group.values
    return [value_words(by, group.level), str(values.n), significant(values.median), spread(values), differs, interval]


def _explained(roofs: Sequence[RoofComparison]) -> list[str]:
    if not roofs:
        return []
    if any(roof.kind == "paired" for roof in roofs):
        return ["paired effects are those of the change alone; groups differ in their gpus and nodes as well"]
    return ["groups differ in their gpus and nodes as well: no gpu is known to have met a change itself"]
