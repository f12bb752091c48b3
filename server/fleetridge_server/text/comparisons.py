"""A comparison as text."""

from __future__ import annotations

from collections.abc import Sequence

from fleetridge.quantities import MISSING, percent, signed_percent, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.comparison_schemas import Comparison, GroupShown, RoofComparison
from fleetridge_server.answer.notice_schemas import UpgradeShown
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.text.words import at, blocks, differing_conditions, lines, spread

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
        lines([f"{answer.device.name} by {answer.by}, as of {at(answer.as_of)}"]),
        *(_roof(roof, words) for roof, words in zip(answer.roofs, conditions, strict=True)),
        "" if answer.roofs else "nothing to compare: no valid report has a judged roof here",
        lines(_explained(answer.roofs)),
    )


def _roof(roof: RoofComparison, conditions: str) -> str:
    more = f"{roof.left_out} smaller groups are left out" if roof.left_out else ""
    return blocks(
        lines([f"{roof_words(roof.roof)}{conditions}, {roof.unit}"]),
        text_table(_PAIRED, [_paired(effect) for effect in roof.paired], title="paired: each gpu with itself")
        if roof.paired
        else "",
        text_table(_GROUPS, [_group(group, roof) for group in roof.groups], title="between groups: other gpus"),
        more,
    )


def _paired(effect: UpgradeShown) -> list[str]:
    interval = f"{signed_percent(effect.low)} to {signed_percent(effect.high)} ({percent(effect.confidence)})"
    return [effect.before, effect.after, str(effect.n), signed_percent(effect.effect), interval]


def _group(group: GroupShown, roof: RoofComparison) -> list[str]:
    if group.effect is None:
        differs = "reference" if group.level == roof.reference else MISSING
        interval = "" if group.note is None else "too few"
    else:
        differs = signed_percent(group.effect)
        interval = f"{signed_percent(group.low)} to {signed_percent(group.high)}"
    values = group.values
    return [group.level, str(values.n), significant(values.median), spread(values), differs, interval]


def _explained(roofs: Sequence[RoofComparison]) -> list[str]:
    if not roofs:
        return []
    if any(roof.kind == "paired" for roof in roofs):
        return ["paired effects are those of the change alone; groups differ in their gpus and nodes as well"]
    return ["groups differ in their gpus and nodes as well: no gpu is known to have met a change itself"]
