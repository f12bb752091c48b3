"""
Tail probabilities of the normal and of Student's t distribution.

Written here because a server should not need a numerics library for two functions.
"""

from __future__ import annotations

import math

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
