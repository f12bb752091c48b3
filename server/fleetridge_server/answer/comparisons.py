"""From grouped cohorts and the effects of upgrades to the shape of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetridge_server.answer.comparison_schemas import GroupShown, RoofComparison
from fleetridge_server.answer.notice_schemas import UpgradeShown
from fleetridge_server.answer.verdicts import roof_name, unit_of
from fleetridge_server.compare.cohort import FEWEST_PEERS, cohort_order
from fleetridge_server.compare.groups import Group, GroupedCohort

# A label may have a value for every node; the largest groups say what there is to say.
_MOST_GROUPS = 50


def roof_comparisons(cohorts: Iterable[GroupedCohort], upgrades: Sequence[UpgradeShown]) -> tuple[RoofComparison, ...]:
    """Comparison of every cohort; `upgrades` are those of the factor that is asked for."""
    return tuple(
        _comparison(cohort, upgrades) for cohort in sorted(cohorts, key=lambda grouped: cohort_order(grouped.cohort))
    )


def _comparison(cohort: GroupedCohort, upgrades: Sequence[UpgradeShown]) -> RoofComparison:
    roof, conditions = cohort.cohort
    paired = tuple(upgrade for upgrade in upgrades if upgrade.roof == roof_name(roof))
    reference = cohort.groups[0]
    return RoofComparison(
        kind="paired" if paired else "between_groups",
        roof=roof_name(roof),
        unit=unit_of(roof),
        conditions=conditions,
        paired=paired,
        reference=reference.level,
        groups=tuple(_group(group, reference) for group in cohort.groups[:_MOST_GROUPS]),
        left_out=max(0, len(cohort.groups) - _MOST_GROUPS),
    )


def _group(group: Group, reference: Group) -> GroupShown:
    found = group.difference
    return GroupShown(
        level=group.level,
        values=group.values,
        effect=None if found is None else found.effect,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        note=_note(group, reference),
    )


def _note(group: Group, reference: Group) -> str | None:
    if group is reference:
        return None
    fewest = min(group.values.n, reference.values.n)
    return None if fewest >= FEWEST_PEERS else f"too few to compare: {fewest} of at least {FEWEST_PEERS}"
