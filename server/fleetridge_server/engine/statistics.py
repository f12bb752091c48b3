"""
Statistics: medians and quantiles, robust scales, two-sided p-values.

Pure: imports nothing of the application, so that every figure of an answer can be checked by hand or by another tool.
Scales are robust: up to half of the values may be anything. The tail probabilities of the normal and of Student's t
distribution are written here because a server should not need a numerics library for two functions.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetridge_server.engine import rule

_HALF = 0.5
_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Distribution:
    """
    A group's values in six figures, in the unit of the values.

    Attributes:
        n: how many values.
        median, q1, q3: the middle and the quartiles.
        p5, p95: the 5th and 95th percentiles.
    """

    n: int
    median: float
    q1: float
    q3: float
    p5: float
    p95: float


def quantile(values: Iterable[float], fraction: float) -> float:
    """
    Value below which `fraction` of the values lie, by linear interpolation (type 7 of Hyndman and Fan 1996).

    The same rule as the defaults of numpy, R and spreadsheets, so that anyone gets the same figure.

    Raises:
        ValueError: no values, one that is not finite, or a fraction outside 0 to 1.
    """
    return _quantile_of_sorted(_sorted_finite(values), fraction)


def median(values: Iterable[float]) -> float:
    """
    Middle value, or the mean of the two in the middle.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    return quantile(values, _HALF)


def distribution(values: Iterable[float]) -> Distribution:
    """Six figures of a group. Raises ValueError: no values, or one that is not finite."""
    ordered = _sorted_finite(values)
    return Distribution(
        n=len(ordered),
        median=_quantile_of_sorted(ordered, 0.5),
        q1=_quantile_of_sorted(ordered, 0.25),
        q3=_quantile_of_sorted(ordered, 0.75),
        p5=_quantile_of_sorted(ordered, 0.05),
        p95=_quantile_of_sorted(ordered, 0.95),
    )


def percentiles(values: Iterable[float]) -> tuple[float, ...]:
    """
    The 101 quantiles from 0 % to 100 %, in steps of 1 %.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    ordered = _sorted_finite(values)
    return tuple(_quantile_of_sorted(ordered, percent / _PERCENT) for percent in range(_PERCENT + 1))


def distribution_of(quantiles: Sequence[float], n: int) -> Distribution:
    """Six figures of a group of n values, from its `percentiles`."""
    return Distribution(
        n=n, median=quantiles[50], q1=quantiles[25], q3=quantiles[75], p5=quantiles[5], p95=quantiles[95]
    )


def _sorted_finite(values: Iterable[float]) -> list[float]:
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values: ask for figures of a group only where it has members")
    if not all(map(math.isfinite, ordered)):
        raise ValueError("a value is not finite: leave out what was not measured")
    return ordered


def _quantile_of_sorted(ordered: Sequence[float], fraction: float) -> float:
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction {fraction:g} lies outside 0 to 1")
    position = (len(ordered) - 1) * fraction
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return _between(ordered[below], ordered[above], position - below)


def _between(low: float, high: float, part: float) -> float:
    # Measured from the nearer end, so that rounding never puts the result outside low to high.
    if part < _HALF:
        return low + (high - low) * part
    return high - (high - low) * (1 - part)


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
    variances = [_relative_variance(runs) for runs in runs_by_gpu if len(runs) >= rule.RUNS_FOR_NOISE]
    if len(variances) < rule.GPUS_FOR_NOISE:
        return rule.FLOOR_WHEN_UNKNOWN
    most = rule.NOISE_MOST_MEDIANS * _typical(variances)
    total = math.fsum(min(variance, most) for variance in variances)
    assumed = rule.GPUS_FOR_NOISE * (rule.FLOOR_WHEN_UNKNOWN / rule.NOISES_PER_FLOOR) ** 2
    noise = math.sqrt((total + assumed) / (len(variances) + rule.GPUS_FOR_NOISE))
    return min(rule.HIGHEST_FLOOR, max(rule.LOWEST_FLOOR, rule.NOISES_PER_FLOOR * noise))


def _typical(variances: Sequence[float]) -> float:
    """Median variance, of the gpus whose runs differ where most have equal ones."""
    middle = median(variances)
    unequal = [variance for variance in variances if variance > 0]
    if middle > 0 or len(unequal) < max(rule.NOISE_FEWEST_UNEQUAL, rule.NOISE_UNEQUAL_SHARE * len(variances)):
        return middle
    return median(unequal)


def _relative_variance(runs: Sequence[float]) -> float:
    first, second, third = runs[: rule.RUNS_FOR_NOISE]
    mean = (first + second + third) / rule.RUNS_FOR_NOISE
    squares = (first - mean) ** 2 + (second - mean) ** 2 + (third - mean) ** 2
    return squares / (rule.RUNS_FOR_NOISE - 1) / mean**2


# Relative change at which the continued fraction has settled: a few units in the last place of a double.
_SETTLED = 1e-14

# Keeps the modified Lentz recurrence away from a division by zero (Press et al., Numerical Recipes, 5.2).
_TINY = 1e-300

# The fraction settles within some sqrt(max(a, b)) steps; degrees of freedom stay below a million.
_MOST_STEPS = 10_000


def normal_two_sided(z: float) -> float:
    """Probability that a standard normal lies further from 0 than z."""
    return math.erfc(abs(z) / math.sqrt(2))


def two_sided(z: float, degrees: float | None) -> float:
    """Probability of such a distance: from Student's t where the scale was estimated, normal where degrees is None."""
    return normal_two_sided(z) if degrees is None else student_two_sided(z, degrees)


def student_two_sided(t: float, degrees: float) -> float:
    """
    Probability that Student's t lies further from 0 than t.

    Equals I_x(degrees/2, 1/2) at x = degrees / (degrees + t²), the regularized incomplete beta function
    (Abramowitz and Stegun 26.7.1).

    Args:
        t: in units of the estimated scale.
        degrees: of freedom, above 0, not necessarily whole.

    Raises:
        ValueError: degrees is not above 0.
    """
    if not degrees > 0:
        raise ValueError(f"Student's t has no {degrees:g} degrees of freedom: give a number above 0")
    square = t * t
    if math.isinf(square):
        return 0.0
    total = degrees + square
    # Each side from its own numerator: 1 - x would lose the digits of a small x.
    return _incomplete_beta(degrees / 2, 0.5, degrees / total, square / total)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Regularized incomplete beta I_x(a, b) with rest = 1 - x."""
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    front = math.exp(log_front)
    # The fraction converges fast on one side of the mean; the other side follows by symmetry.
    if x < (a + 1) / (a + b + 2):
        return min(1.0, front * _fraction(a, b, x) / a)
    return max(0.0, 1 - front * _fraction(b, a, rest) / b)


def _fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by modified Lentz."""
    c = 1.0
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    result = d
    for step in range(1, _MOST_STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        d = 1 / _away_from_zero(1 + even * d)
        c = _away_from_zero(1 + even / c)
        result *= d * c
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        d = 1 / _away_from_zero(1 + odd * d)
        c = _away_from_zero(1 + odd / c)
        change = d * c
        result *= change
        if abs(change - 1) < _SETTLED:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
