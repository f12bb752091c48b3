"""Order statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine import statistics

RATES = st.floats(min_value=1e-3, max_value=1e6)
GROUPS = st.lists(RATES, min_size=1, max_size=64)
FRACTIONS = st.floats(min_value=0, max_value=1)

FIGURES = ("median", "q1", "q3", "p5", "p95")


def figures(values: list[float]) -> list[float]:
    """The five figures of a group."""
    found = statistics.distribution(values)
    return [getattr(found, name) for name in FIGURES]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([13.6, 13.7, 13.5, 8.1], [13.55, 12.15, 13.625, 8.91, 13.685]),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [4.5, 2.75, 6.25, 1.35, 7.65]),
        ([660.0], [660.0, 660.0, 660.0, 660.0, 660.0]),
        ([3.0, 1.0], [2.0, 1.5, 2.5, 1.1, 2.9]),
    ],
)
def test_the_figures_are_those_that_numpy_gives(values: list[float], expected: list[float]) -> None:
    """Golden values of numpy's (values, [50, 25, 75, 5, 95]): linear interpolation, type 7."""
    assert figures(values) == pytest.approx(expected, rel=1e-12)


@given(GROUPS, FRACTIONS)
def test_every_quantile_agrees_with_numpy(values: list[float], fraction: float) -> None:
    """Anyone who recomputes an answer uses numpy, R or a spreadsheet, which share this rule."""
    assert statistics.quantile(values, fraction) == pytest.approx(float(np.quantile(values, fraction)), rel=1e-9)


@given(GROUPS.flatmap(lambda values: st.tuples(st.just(values), st.permutations(values))))
def test_order_never_matters(groups: tuple[list[float], list[float]]) -> None:
    """Reports arrive in any order."""
    values, shuffled = groups

    assert statistics.distribution(values) == statistics.distribution(shuffled)


@given(GROUPS, st.floats(min_value=1e-3, max_value=1e3))
def test_another_unit_scales_every_figure(values: list[float], factor: float) -> None:
    """GFLOP/s for TFLOP/s changes no verdict."""
    scaled = figures([value * factor for value in values])

    assert scaled == pytest.approx([value * factor for value in figures(values)], rel=1e-9)


@given(GROUPS, st.floats(min_value=-1e6, max_value=1e6))
def test_a_shift_of_all_values_shifts_every_figure(values: list[float], shift: float) -> None:
    """The figures say where the values lie, nothing else."""
    shifted = figures([value + shift for value in values])

    assert shifted == pytest.approx([value + shift for value in figures(values)], rel=1e-9, abs=1e-6)


@given(GROUPS, FRACTIONS, FRACTIONS)
def test_quantiles_rise_with_the_fraction_and_stay_within_the_values(
    values: list[float], one: float, two: float
) -> None:
    """Rounding included: a quartile beyond the highest value would be absurd."""
    low, high = statistics.quantile(values, min(one, two)), statistics.quantile(values, max(one, two))

    assert min(values) <= low <= high <= max(values)


@given(RATES, st.integers(min_value=1, max_value=20))
def test_equal_values_have_that_value_everywhere(value: float, n: int) -> None:
    """Quantised rates of a healthy fleet are often all the same."""
    assert figures([value] * n) == [value] * len(FIGURES)


def test_a_distribution_counts_its_values() -> None:
    """Whoever reads a median wants to know of how many."""
    assert statistics.distribution([1.0, 2.0, 2.0]).n == 3


def test_the_median_of_two_is_their_mean() -> None:
    """As everywhere."""
    assert statistics.median([1.0, 2.0]) == 1.5


def test_no_values_have_no_figures() -> None:
    """An empty group is said to be empty, not given zeros."""
    with pytest.raises(ValueError, match="no values"):
        statistics.distribution([])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    """One of them would spoil every figure without a trace."""
    with pytest.raises(ValueError, match="not finite"):
        statistics.median([1.0, bad])


@pytest.mark.parametrize("fraction", [-0.01, 1.01, math.nan])
def test_a_fraction_lies_within_zero_and_one(fraction: float) -> None:
    """95 instead of 0.95 is a mistake that must not give a figure."""
    with pytest.raises(ValueError, match="outside 0 to 1"):
        statistics.quantile([1.0, 2.0], fraction)


@given(GROUPS)
def test_percentiles_hold_the_figures_of_a_distribution(values: list[float]) -> None:
    """From the smallest value to the largest, so that nothing is sorted twice."""
    percentiles = statistics.percentiles(values)

    assert (len(percentiles), percentiles[0], percentiles[100]) == (101, min(values), max(values))
    assert list(percentiles) == sorted(percentiles)
    assert statistics.distribution_of(percentiles, len(values)) == statistics.distribution(values)
