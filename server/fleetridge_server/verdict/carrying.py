"""
What runs before an upgrade are worth after it.

A new driver that costs 5 % would otherwise make a step within each gpu's newest runs: values of gpus that ran it once
and of those that ran it twice would differ, the noise would look larger than it is, and faults would hide behind it.
Each gpu is paired with itself, and the older runs count times what the change did to the gpus that met it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from fleetridge_server.compare.cohort import FEWEST_PEERS, NEWEST_REPORTS
from fleetridge_server.compare.stats import median
from fleetridge_server.verdict.evidence import Factors

# A change of less is noise as far as accusations go: the least that noise is taken for is half of it.
_SMALLEST_CHANGE = 0.01

Setting = str | float | bool | None


class PastRun(NamedTuple):
    """Settings and value of one run."""

    factors: Factors
    value: float


class _Change(NamedTuple):
    """Settings that changed between two runs: position among the factors, before, after."""

    position: int
    before: Setting
    after: Setting


class _Boundary(NamedTuple):
    """Changes between the run at `position`, which is the first older one, and the run after it."""

    position: int
    changes: tuple[_Change, ...]


def carrying_factors(gpus: Sequence[Sequence[PastRun]]) -> list[list[float] | None]:
    """
    By what each run of each gpu counts today; None for a gpu whose settings are not known to have changed.

    A change that at least four gpus of a cohort met has the effect that is the median of their ratios: median of the
    first three runs after it over that of the newest three before it. An effect of less than 1 %, or on fewer gpus,
    counts as none.

    Args:
        gpus: runs of each gpu, newest first.
    """
    boundaries = [_boundaries(runs) for runs in gpus]
    ratios: dict[tuple[_Change, ...], list[float]] = defaultdict(list)
    for runs, own in zip(gpus, boundaries, strict=True):
        for after, boundary in enumerate(own):
            ratios[boundary.changes].append(_ratio(runs, own, after))
    effects = {changes: _effect(found) for changes, found in ratios.items()}
    return [_factors(runs, own, effects) if own else None for runs, own in zip(gpus, boundaries, strict=True)]


def _boundaries(runs: Sequence[PastRun]) -> list[_Boundary]:
    """Where settings changed, from the newest on; a reading that is missing is no change."""
    found: list[_Boundary] = []
    known: list[Setting] = list(runs[0].factors)
    for position, run in enumerate(runs):
        changes: list[_Change] = []
        for place, was in enumerate(run.factors):
            became = known[place]
            if was is None:
                continue
            if became is not None and not _is_same(was, became):
                changes.append(_Change(place, was, became))
            known[place] = was
        if changes:
            found.append(_Boundary(position, tuple(changes)))
    return found


def _is_same(one: Setting, other: Setting) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return round(one) == round(other)
    return one == other


def _ratio(runs: Sequence[PastRun], boundaries: Sequence[_Boundary], place: int) -> float:
    """After over before, of the runs next to a boundary and within its neighbours."""
    cut = boundaries[place].position
    first = boundaries[place - 1].position if place else 0
    end = boundaries[place + 1].position if place + 1 < len(boundaries) else len(runs)
    after = runs[max(first, cut - NEWEST_REPORTS) : cut]
    before = runs[cut : min(end, cut + NEWEST_REPORTS)]
    return median(run.value for run in after) / median(run.value for run in before)


def _effect(ratios: Sequence[float]) -> float:
    if len(ratios) < FEWEST_PEERS:
        return 1.0
    effect = median(ratios)
    return effect if abs(effect - 1) >= _SMALLEST_CHANGE else 1.0


def _factors(
    runs: Sequence[PastRun], boundaries: Sequence[_Boundary], effects: dict[tuple[_Change, ...], float]
) -> list[float]:
    """Product of the effects between each run and the newest."""
    at = {boundary.position: effects[boundary.changes] for boundary in boundaries}
    factors: list[float] = []
    factor = 1.0
    for position in range(len(runs)):
        factor *= at.get(position, 1.0)
        factors.append(factor)
    return factors
