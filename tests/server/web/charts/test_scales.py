"""Axes and their ticks."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.web.charts.axes import Axis, LogAxis, nice_step, roomy, written

lows = st.floats(-1e9, 1e9)
spans = st.floats(1e-3, 1e9)


@given(lows, spans, st.floats(0, 1), st.floats(0, 1))
def test_a_larger_value_never_stands_before_a_smaller_one(low: float, span: float, one: float, other: float) -> None:
    """Order on the axis is order of the values."""
    axis = Axis(low, low + span, 10, 110)
    smaller, larger = sorted((low + one * span, low + other * span))

    assert 10 <= axis.at(smaller) <= axis.at(larger) <= 110


def test_an_axis_may_run_upwards() -> None:
    """The y of SVG grows downwards."""
    assert Axis(0, 10, 100, 0).at(2.5) == 75


def test_what_lies_outside_waits_at_the_edge() -> None:
    """A mark must never leave its chart."""
    assert (Axis(0, 1, 0, 50).at(7), Axis(0, 1, 0, 50).at(-7)) == (50, 0)


@given(lows, spans, st.integers(2, 20))
def test_ticks_lie_on_the_axis_and_are_few(low: float, span: float, most: int) -> None:
    """One more than asked for where both ends have one."""
    ticks = Axis(low, low + span, 0, 100).ticks(most)

    assert len(ticks) <= most + 1
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in ticks)


def test_a_logarithmic_axis_counts_one_two_five_where_there_is_room() -> None:
    """One decade with powers of ten alone has hardly a tick."""
    assert LogAxis(0, 2, 0, 600).ticks(34) == [1, 2, 5, 10, 20, 50, 100]


def test_a_logarithmic_axis_leaves_out_decades_where_there_is_none() -> None:
    """Labels must not touch."""
    assert LogAxis(0, 12, 0, 200).ticks(34) == [1, 1e3, 1e6, 1e9, 1e12]


@given(st.floats(1e-9, 1e12))
def test_a_nice_step_is_the_next_that_people_count_in(least: float) -> None:
    """Never more than two and a half times what is needed."""
    assert least * (1 - 1e-6) <= nice_step(least) <= least * 2.5 * (1 + 1e-6)


def test_equal_values_still_make_a_range() -> None:
    """One gpu has no spread."""
    assert roomy(5, 5, least_span=2, share=0.1) == (4, 6)


def test_ticks_are_written_without_the_crumbs_of_binary_sums() -> None:
    """Not 0.30000000000000004."""
    assert [written(tick, 1.0) for tick in (0.1 * 3, -1e-17, -2.5)] == ["0.3", "0", "−2.5"]
    assert math.isclose(0.1 * 3, 0.3)
