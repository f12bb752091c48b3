"""Quantiles in place of gpus."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.statistics import distribution, percentiles
from fleetridge_server.web.charts.distribution import Spread, of_distribution, of_quantiles, scaled

values = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=200)


@given(values, st.floats(0.01, 1e4), st.integers(1001, 100_000))
def test_the_bins_hold_all_gpus_but_the_outermost_percents(own: list[float], step: float, gpus: int) -> None:
    """There a single gpu may lie far from all others, and would be spread over everything between."""
    counts = of_quantiles(gpus, percentiles([value * step for value in own])).counts(step * 100)

    assert sum(counts.values()) == pytest.approx(gpus * 0.98)


def test_a_bin_has_as_many_gpus_as_its_part_of_the_way_between_two_quantiles() -> None:
    spread = Spread(1000, ((0.1, 10.0), (0.5, 30.0)))

    assert dict(spread.counts(8.0)) == pytest.approx({1: 120.0, 2: 160.0, 3: 120.0})


def test_equal_quantiles_are_one_bin() -> None:
    """Half of all gpus may have one and the same value."""
    assert dict(Spread(1000, ((0.1, 7.0), (0.5, 7.0))).counts(2.0)) == {3: 400.0}


@given(values)
def test_the_ends_are_those_of_the_gpus(own: list[float]) -> None:
    spread = of_quantiles(len(own), percentiles(own))

    assert (spread.bottom, spread.top) == (min(own), max(own))


@given(values)
def test_the_figures_of_an_answer_reach_from_5_to_95_percent(own: list[float]) -> None:
    figures = distribution(own)
    spread = of_distribution(figures)

    assert (spread.gpus, spread.bottom, spread.top) == (len(own), figures.p5, figures.p95)
    assert spread.covers(figures.median)


def test_as_deviations_they_lie_as_far_from_the_median() -> None:
    spread = scaled(of_quantiles(500, percentiles([90.0, 100.0, 120.0])), 100.0)

    assert (spread.bottom, spread.top) == pytest.approx((-0.1, 0.2))
    assert spread.parts[49] == (0.5, 0.0)


def test_another_number_of_quantiles_is_refused() -> None:
    with pytest.raises(ValueError, match="give those at 0 %, 1 %"):
        of_quantiles(5, (1.0, 2.0))
