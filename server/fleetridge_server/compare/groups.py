"""
Groups of a cohort beside one another: what gpus with one driver reach, and what those with another do.

Pure. Each group holds other gpus, so a difference is also one between their nodes; where gpus met a change themselves,
pairs say more (`verdict.epochs`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleetridge_server.compare.cohort import FEWEST_PEERS, Cohort
from fleetridge_server.compare.stats import Distribution, distribution

# 95 % of a normal distribution, and the standard error of a median in units of that of a mean.
_Z_95 = 1.96
_MEDIAN_ERROR = math.sqrt(math.pi / 2)

# Quartiles of a normal distribution lie so many standard deviations apart.
_QUARTILES_APART = 1.349

# Clocks and temperatures move every gpu by some tenths of a per cent, however alike the values of a few are.
_LEAST_SPREAD = 0.005


class Difference(NamedTuple):
    """Median of a group over that of the reference, less 1, with its 95 % interval."""

    effect: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Group:
    """
    Gpus of a cohort at one level.

    Attributes:
        values: their distribution.
        difference: from the reference group; None for that itself, and where one of the two has fewer than four gpus.
    """

    level: str
    values: Distribution
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class GroupedCohort:
    """A cohort with its groups, the largest (the reference) first."""

    cohort: Cohort
    groups: tuple[Group, ...]


def grouped_cohorts(values: Iterable[tuple[Cohort, float, str]]) -> list[GroupedCohort]:
    """
    Judged cohorts with their groups, in no order.

    Args:
        values: of the gpus of one device, in judged cohorts, each with its level.
    """
    members: dict[Cohort, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cohort, value, level in values:
        members[cohort][level].append(value)
    return [GroupedCohort(cohort, _groups(by_level)) for cohort, by_level in members.items()]


def _groups(by_level: Mapping[str, Sequence[float]]) -> tuple[Group, ...]:
    found = {level: distribution(values) for level, values in by_level.items()}
    order = sorted(found, key=lambda level: (-found[level].n, level))
    reference = found[order[0]]
    spread = max(_LEAST_SPREAD, _pooled_spread(list(found.values())))
    return tuple(
        Group(level, found[level], None if place == 0 else _difference(found[level], reference, spread))
        for place, level in enumerate(order)
    )


def _difference(own: Distribution, reference: Distribution, spread: float) -> Difference | None:
    if min(own.n, reference.n) < FEWEST_PEERS:
        return None
    effect = own.median / reference.median - 1
    margin = _Z_95 * _MEDIAN_ERROR * spread * math.sqrt(1 / own.n + 1 / reference.n)
    return Difference(effect, effect - margin, effect + margin)


def _pooled_spread(groups: Sequence[Distribution]) -> float:
    """Relative standard deviation within groups, from their quartiles, weighted by their gpus."""
    large = [group for group in groups if group.n >= FEWEST_PEERS]
    total = sum(group.n for group in large)
    if not total:
        return 0.0
    return sum(group.n * (group.q3 - group.q1) / (_QUARTILES_APART * group.median) for group in large) / total
