"""Logarithmic axes on a grid of characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.log_canvas import LogCanvas, LogScale, placed_labels, power_of_ten


def test_a_decade_takes_its_share_of_the_axis() -> None:
    """Three decades on 30 cells: each value in the cell that its logarithm falls into."""
    scale = LogScale(0.0, 3.0, 30)

    assert [scale.cell(value) for value in (0.0, 1.0, 2.0, 3.0, 9.0, -9.0)] == [0, 10, 20, 29, 29, 0]


@given(low=st.floats(-300, 300), decades=st.floats(1, 300), cells=st.integers(1, 200), data=st.data())
def test_the_middle_of_a_cell_lies_in_that_cell(low: float, decades: float, cells: int, data: st.DataObject) -> None:
    """Reading the axis back gives where one started."""
    scale = LogScale(low, low + decades, cells)
    cell = data.draw(st.integers(0, cells - 1))

    assert scale.cell(scale.value_at(cell)) == cell


def test_ticks_are_powers_of_ten_that_do_not_crowd() -> None:
    """Where decades are narrow, only each second or third gets a tick."""
    assert LogScale(-0.5, 3.5, 40).ticks(cells_apart=9) == [0, 1, 2, 3]
    assert LogScale(-0.5, 12.5, 40).ticks(cells_apart=9) == [0, 3, 6, 9, 12]


@pytest.mark.parametrize(
    ("exponent", "label"), [(-4, "1e-04"), (-2, "0.01"), (0, "1"), (3, "1000"), (5, "1e+05"), (100, "1e+100")]
)
def test_ordinary_powers_of_ten_are_written_out(exponent: int, label: str) -> None:
    """0.01, not 1e-02."""
    assert power_of_ten(exponent) == label


def test_labels_stand_centred_and_never_touch() -> None:
    """One that would meet its neighbour or leave the line is left out."""
    assert placed_labels([(3, "10"), (6, "100"), (12, "1000"), (19, "10000")], 20) == "  10 100  1000"


def test_the_top_row_holds_the_highest_values() -> None:
    """Rows count down, values up."""
    canvas = LogCanvas(LogScale(0, 1, 4), LogScale(0, 4, 4))

    assert [canvas.row(value) for value in (0.5, 2.5, 3.5)] == [3, 1, 0]


def test_a_level_within_a_cell_picks_its_glyph() -> None:
    """Low, middle and high third."""
    canvas = LogCanvas(LogScale(0, 1, 4), LogScale(0, 4, 4))

    assert "".join(canvas.level(value, "_-'") for value in (1.1, 1.5, 1.9)) == "_-'"


def test_a_glyph_is_put_inside_the_grid_only() -> None:
    """And over another one only where that is wanted."""
    canvas = LogCanvas(LogScale(0, 1, 2), LogScale(0, 1, 2))

    assert [
        canvas.put(0, 0, "a"),
        canvas.put(0, 0, "b", over=False),
        canvas.put(1, 1, "c", over=False),
        canvas.put(2, 0, "d"),
        canvas.put(0, -1, "e"),
    ] == [True, False, True, False, False]
    assert canvas.rows == [["a", " "], [" ", "c"]]
