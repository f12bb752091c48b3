"""
One name, two products: values that fall into two heaps of like size.

Half of a cohort cannot be called broken by the other half. Where neither driver nor limit nor firmware tells the heaps
apart, the name stands for two products or two settings, and people are told so once.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetridge_server.compare.cohort import FEWEST_PEERS
from fleetridge_server.compare.stats import median
from fleetridge_server.verdict.scale import NORMAL_CONSISTENCY, small_sample_factor

# A smaller heap is a minority that robust medians bear, and may well be faulty.
_SMALLEST_SHARE = 0.4

# Halves of one normal heap lie 2.2 of their own scales apart, of a uniform one 2.7.
_HEAP_SCALES = 6.0

# Between two heaps there is nothing, or almost; a slow quarter among the "lower" ones leaves no such gap.
_GAP_PART = 0.5

# Heaps nearer than this are of no interest to anybody who looks for slow gpus.
_NEAREST = 0.03


def split_in_two(values: Sequence[float], floor: float) -> float | None:
    """
    Value between two heaps; None where the values make one.

    The heaps are parted at the widest gap that leaves each at least 40 % of the values, and four.

    Args:
        values: of one group, above 0.
        floor: smallest scale, as a fraction of the median.
    """
    ordered = sorted(values)
    fewest = max(FEWEST_PEERS, -int(-_SMALLEST_SHARE * len(ordered) // 1))
    if len(ordered) < 2 * fewest:
        return None
    cut = max(range(fewest, len(ordered) - fewest + 1), key=lambda place: ordered[place] - ordered[place - 1])
    low, high = ordered[:cut], ordered[cut:]
    if high[0] - low[-1] < _GAP_PART * (median(high) - median(low)):
        return None
    distance = median(high) / median(low) - 1
    scale = max(_deviation(low), _deviation(high), floor)
    if distance < _NEAREST or distance < _HEAP_SCALES * scale:
        return None
    return (low[-1] + high[0]) / 2


def _deviation(values: Sequence[float]) -> float:
    center = median(values)
    factor = NORMAL_CONSISTENCY * small_sample_factor(len(values)) / center
    return factor * median(abs(value - center) for value in values)
