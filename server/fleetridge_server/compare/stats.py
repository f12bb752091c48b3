"""
Order statistics of small and large groups of gpus.

Pure: imports nothing of the application, so that every figure of an answer can be checked by hand or by another tool.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """
    Six figures of a group.

    Raises:
        ValueError: no values, or one that is not finite.
    """
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
