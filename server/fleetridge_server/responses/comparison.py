"""Groups of gpus side by side, before and after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleetridge_server.engine.cohort import Conditions, cohort_order
from fleetridge_server.engine.rule import FEWEST_PEERS
from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.engine.upgrades import FactorGroup, GroupedCohort
from fleetridge_server.responses.verdict import EvaluatedAnswer
from fleetridge_server.verdicts.evaluation_shapes import UpgradeShown
from fleetridge_server.verdicts.roof_shapes import DeviceName, RoofName
from fleetridge_server.verdicts.sentence import roof_name, unit_of


@dataclass(frozen=True, slots=True)
class GroupShown:
    """
    Gpus that share a level.

    Attributes:
        level: as people write it; `unknown` where no reading says.
        values: in the unit of the roof.
        effect: median over that of the reference, less 1, with its 95 % interval; null for the reference itself and
            where one of the two has fewer than four gpus, as `note` says.
    """

    level: str
    values: Distribution
    effect: float | None
    low: float | None
    high: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class RoofComparison:
    """
    One cohort, compared.

    Attributes:
        kind: `paired` where gpus met a change of the factor themselves and each is compared with itself; else
            `between_groups`, where differences between the gpus and their nodes count too.
        paired: effects of the newest change.
        reference: level of the largest group.
        groups: the largest first; left_out: how many more there are.
    """

    kind: str
    roof: RoofName
    unit: str
    conditions: Conditions
    paired: tuple[UpgradeShown, ...]
    reference: str
    groups: tuple[GroupShown, ...]
    left_out: int


class Comparison(EvaluatedAnswer):
    """
    What a setting, a version or a place does to a device's gpus.

    Pairs are those of the newest evaluation (`evaluated_as_of`, null before the first), groups those of now.
    """

    device: DeviceName
    as_of: datetime
    by: str
    roofs: tuple[RoofComparison, ...]


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


def _group(group: FactorGroup, reference: FactorGroup) -> GroupShown:
    found = group.difference
    return GroupShown(
        level=group.level,
        values=group.values,
        effect=None if found is None else found.effect,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        note=_note(group, reference),
    )


def _note(group: FactorGroup, reference: FactorGroup) -> str | None:
    if group is reference:
        return None
    fewest = min(group.values.n, reference.values.n)
    return None if fewest >= FEWEST_PEERS else f"too few to compare: {fewest} of at least {FEWEST_PEERS}"
