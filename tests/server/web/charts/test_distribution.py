"""The distribution of a group's values."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.web.charts.distribution import DistributionChart, distribution_svg
from fleetridge_server.web.charts.svg import Layout
from support.drawn import all_of, texts, titles


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60), st.none() | st.floats(1e-3, 1e6))
def test_the_bars_count_every_value(values: list[float], published: float | None) -> None:
    """Equal ones and far ones included."""
    svg = distribution_svg(DistributionChart("pi", "TFLOP/s", tuple(values), published))
    counted = sum(int(found[1]) for title in titles(svg) if (found := re.match(r"(\d+) gpus? from", title)))

    assert counted == len(values)
    assert "nan" not in svg


@pytest.mark.parametrize("layout", Layout)
def test_no_bar_leaves_the_chart(layout: Layout) -> None:
    """The lowest and the highest value have bars of their own."""
    svg = distribution_svg(DistributionChart("pi", "TFLOP/s", (640.0, 780.0, 781.0), 989.0, 757.0), layout)
    starts = [float(bar.get("d", "")[1:].split()[0]) for bar in all_of(svg, "path", "fr-bar")]

    assert all(0 <= start <= layout.units for start in starts)


def test_one_gpu_has_a_value_and_no_quartiles() -> None:
    """There is nothing to be distributed."""
    assert "1 gpu, 781 TFLOP/s" in texts(distribution_svg(DistributionChart("pi", "TFLOP/s", (781.0,))))


def test_the_quantiles_are_those_of_the_answers() -> None:
    """One rule for all of them."""
    svg = distribution_svg(DistributionChart("pi", "TFLOP/s", (100.0, 200.0, 300.0, 400.0, 500.0)))

    assert "5 gpus, median 300 TFLOP/s, quartiles 200–400, 5 to 95 % 120–480" in texts(svg)


def test_no_values_are_said_in_words() -> None:
    """An empty chart explains itself."""
    assert "No gpu was measured yet." in texts(distribution_svg(DistributionChart("pi", "TFLOP/s", ())))
