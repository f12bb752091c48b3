"""
How far the values of like gpus lie apart, and how far runs of one gpu do.

Robust: up to half of the values may be anything. All figures can be recomputed with a pocket calculator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetridge_server.compare.stats import median

# 1 / Φ⁻¹(3/4): makes the median absolute deviation of normal values their standard deviation.
NORMAL_CONSISTENCY = 1.4826

# b_n of Croux and Rousseeuw (1992), "Time-efficient algorithms for two highly robust estimators of scale", for n up
# to 9; beyond it n / (n - 0.8), by the same authors.
_SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
_LARGE_SAMPLE_OFFSET = 0.8

# Straight line through the degrees of freedom at which Student's t has the tail that a modified z of n normal values
# has (simulated for n = 6 to 64); odd n have a little less, as the middle value has deviation 0.
_DEGREES_SLOPE = 0.443
_DEGREES_AT_ZERO = 0.75
_DEGREES_OF_ODD = 0.65
_FEWEST_DEGREES = 1.0

# The floor is twice the noise between runs: three runs of one gpu, the mildest case, then still lie inside it.
NOISES_PER_FLOOR = 2.0
LOWEST_FLOOR = 0.005  # clocks and temperatures move every gpu by some tenths of a per cent
HIGHEST_FLOOR = 0.02  # noisier measurements say little; a higher floor would hide faults of 7 %
FLOOR_WHEN_UNKNOWN = 0.01  # noise of 0.5 % is what a careful measurement reaches
RUNS_FOR_NOISE = 3
GPUS_FOR_NOISE = 8

# The variance of three normal values is exponential: one in a thousand lies above ten times the median. A gpu that does
# changed meanwhile or was disturbed. It counts as ten medians: a few say little, and many are the fleet's nature.
_MOST_MEDIANS = 10.0

# Of values written with few digits most runs are equal. Where a tenth of the gpus (and no less than four) has other
# runs, a step of the last digit is their noise; fewer are gpus that changed.
_FEWEST_UNEQUAL = 4
_UNEQUAL_SHARE = 0.1

ScaleSource = Literal["mad", "floor"]


@dataclass(frozen=True, slots=True)
class Scale:
    """
    Spread of the values of one cohort.

    Attributes:
        value: in the unit of the values.
        source: `mad` where the values themselves gave it, `floor` where the floor is larger.
        degrees: of freedom of Student's t that an estimated scale has; None for a floor, which is known noise.
    """

    value: float
    source: ScaleSource
    degrees: float | None


def small_sample_factor(n: int) -> float:
    """b_n, by which 1.4826·MAD of n normal values must be multiplied to be right on average; 1 for one value."""
    return 1.0 if n < min(_SMALL_SAMPLE) else _SMALL_SAMPLE.get(n) or n / (n - _LARGE_SAMPLE_OFFSET)


def degrees_of_freedom(n: int) -> float:
    """ν_n of a modified z of n values; at least 1."""
    degrees = _DEGREES_SLOPE * n + _DEGREES_AT_ZERO - (_DEGREES_OF_ODD if n % 2 else 0.0)
    return max(_FEWEST_DEGREES, degrees)


def robust_deviation(residuals: Sequence[float]) -> float:
    """1.4826·median(|residual|): standard deviation that normal residuals would have."""
    return NORMAL_CONSISTENCY * median(abs(residual) for residual in residuals)


def floored_scale(deviation: float, center: float, *, n: int, floor: float) -> Scale:
    """
    Scale from a corrected robust deviation, never below what noise alone explains.

    Args:
        deviation: 1.4826·b_n·MAD, in the unit of `center`.
        center: median of the values.
        n: how many values the deviation rests on.
        floor: smallest scale, as a fraction of the center.
    """
    least = floor * center
    if deviation > least:
        return Scale(deviation, "mad", degrees_of_freedom(n))
    return Scale(least, "floor", None)


def scale_floor(runs_by_gpu: Iterable[Sequence[float]]) -> float:
    """
    Floor f as a fraction: twice the pooled noise between runs of one gpu, held within 0.5 % and 2 %.

    Each gpu gives the variance of its newest three runs relative to their mean, at most ten times the median variance.
    The noise is the root of the mean variance over all gpus, with eight times 0.5 % squared beside them: eight gpus
    alone would miss the floor by a fifth, a hundred hardly notice. Where the median variance is 0, that of the gpus
    whose runs differ stands in if they are a tenth of all, and four.

    Args:
        runs_by_gpu: values of each gpu, newest first; gpus with fewer than three runs do not count.
    """
    variances = [_relative_variance(runs) for runs in runs_by_gpu if len(runs) >= RUNS_FOR_NOISE]
    if len(variances) < GPUS_FOR_NOISE:
        return FLOOR_WHEN_UNKNOWN
    most = _MOST_MEDIANS * _typical(variances)
    total = math.fsum(min(variance, most) for variance in variances)
    assumed = GPUS_FOR_NOISE * (FLOOR_WHEN_UNKNOWN / NOISES_PER_FLOOR) ** 2
    noise = math.sqrt((total + assumed) / (len(variances) + GPUS_FOR_NOISE))
    return min(HIGHEST_FLOOR, max(LOWEST_FLOOR, NOISES_PER_FLOOR * noise))


def _typical(variances: Sequence[float]) -> float:
    """Median variance, of the gpus whose runs differ where most have equal ones."""
    middle = median(variances)
    unequal = [variance for variance in variances if variance > 0]
    if middle > 0 or len(unequal) < max(_FEWEST_UNEQUAL, _UNEQUAL_SHARE * len(variances)):
        return middle
    return median(unequal)


def _relative_variance(runs: Sequence[float]) -> float:
    first, second, third = runs[:RUNS_FOR_NOISE]
    mean = (first + second + third) / RUNS_FOR_NOISE
    squares = (first - mean) ** 2 + (second - mean) ** 2 + (third - mean) ** 2
    return squares / (RUNS_FOR_NOISE - 1) / mean**2
