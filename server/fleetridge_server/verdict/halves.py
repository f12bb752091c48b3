"""
Levels half of whose gpus are slow.

Of four gpus on one driver two may be faulty, and the median then lies between the heaps: nobody is accused. Where the
whole cohort shows that like gpus lie close together, a slower half that is set apart is a minority of the cohort, and
what is left of its level shows what the level can do: faults make silicon slower, never faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fleetridge_server.compare.cohort import FEWEST_PEERS
from fleetridge_server.compare.stats import median

# From eight on, each half has gpus enough to be a population of its own; an odd level's median is of the larger part.
_FEWEST_APART = 2 * FEWEST_PEERS

# Halves of four healthy values lie 1.3 scales apart on average. With the five degrees of freedom of two levels of four,
# 0.06 % of healthy gpus are set apart at eight, whatever their spread; 5 % at 0.5 % of noise are fifteen.
_APART_SCALES = 8.0

# Nearer ones are within the limit of each other, floors being the least that noise explains.
_NEAREST = 0.03
_APART_FLOORS = 3.5

# Between heaps there is a gap, no slope.
_GAP_PART = 0.5

# Two of eight. Beyond it, the slower ones are no minority, and nothing tells who is at fault.
_LARGEST_SHARE = 0.25


def level_centers(levels: Sequence[Sequence[float]], floor: float) -> list[float]:
    """
    Center of each level of a cohort: its median, or that of its faster half where the slower half is set apart.

    A half is set apart where its median lies at least 8 scales, 3.5 floors and 3 % below that of the faster half, with
    a gap of half that distance between them. The scale is the root mean square of all residuals within levels and
    halves. Together such halves are at most a quarter of the cohort, else none is.

    Args:
        levels: values of each level, above 0.
        floor: smallest scale, as a fraction.
    """
    centers = [median(values) for values in levels]
    apart = [place for place, values in enumerate(levels) if _has_gap(values, floor)]
    total = sum(map(len, levels))
    if not apart or sum(len(levels[place]) // 2 for place in apart) > _LARGEST_SHARE * total:
        return centers
    heaps = [heap for place, values in enumerate(levels) for heap in (_halves(values) if place in apart else [values])]
    scale = _pooled_scale(heaps)
    for place in apart:
        slower, faster = _halves(levels[place])
        if _distance(slower, faster) >= _APART_SCALES * scale:
            centers[place] = median(faster)
    return centers


def _has_gap(values: Sequence[float], floor: float) -> bool:
    """Whether a level falls into halves far enough apart to be looked at."""
    if len(values) % 2 or not FEWEST_PEERS <= len(values) < _FEWEST_APART:
        return False
    slower, faster = _halves(values)
    gap = faster[0] - slower[-1]
    is_far = _distance(slower, faster) >= max(_NEAREST, _APART_FLOORS * floor)
    return is_far and gap >= _GAP_PART * (median(faster) - median(slower))


def _halves(values: Sequence[float]) -> tuple[list[float], list[float]]:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[:half], ordered[half:]


def _distance(slower: Sequence[float], faster: Sequence[float]) -> float:
    return 1 - median(slower) / median(faster)


def _pooled_scale(heaps: Sequence[Sequence[float]]) -> float:
    """Relative standard deviation about the heaps' own medians, each of which costs a degree of freedom."""
    squares = [(value / median(heap) - 1) ** 2 for heap in heaps for value in heap]
    return math.sqrt(math.fsum(squares) / max(1, len(squares) - len(heaps)))
