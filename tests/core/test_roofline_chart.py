"""The roofline drawn in characters."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.dtypes import dtype_named
from fleetridge.roofline_chart import NARROWEST, ComputeRoof, MemoryRoof, Series, roofline_chart
from fleetridge.terminal_text import display_width
from fleetridge.workloads import Workload, reference_workloads

BURST = ComputeRoof("bfloat16 burst", 828.0)
SUSTAINED = ComputeRoof("bfloat16 sustained", 684.0)
READ = MemoryRoof("device memory, read", 4469.0)
POINTS = Series("o_proj", ((1.0, 2.4), (30.0, 78.0), (1024.0, 680.0)))

positive = st.floats(min_value=5e-324, max_value=1.7e308, exclude_min=False)
labels = st.text(max_size=50)
compute_roofs = st.lists(st.builds(ComputeRoof, labels, positive), max_size=5)
memory_roofs = st.builds(MemoryRoof, labels, positive)
some_series = st.lists(
    st.builds(Series, labels, st.lists(st.tuples(positive, positive), max_size=4).map(tuple)), max_size=7
)
some_workloads = st.lists(st.builds(Workload, labels, positive), max_size=30)


def h200(*, ascii_only: bool = False) -> list[str]:
    """Lines of a chart of one measured H200."""
    return roofline_chart(
        [BURST, SUSTAINED],
        READ,
        series=[POINTS],
        workloads=reference_workloads(dtype_named("bfloat16")),
        title="NVIDIA H200",
        ascii_only=ascii_only,
    ).splitlines()


def test_a_chart_shows_slope_roofs_ridges_points_and_workloads() -> None:
    """The whole picture in ASCII, for terminals that have nothing else."""
    assert h200(ascii_only=True) == [
        "NVIDIA H200",
        "TFLOP/s",
        "    828 +                                                   +==============C====",
        "    684 +                                              __-+~~~~~~~~~~~~~~~~o~~~~",
        "        |                                         __--'   : :",
        "        |                                     _--'        : :",
        "    100 +                                __-''            : :",
        "        |                           __-''  o              : :",
        "        |                       _--'                      : :",
        "        |                  _--''                          : :",
        "        |             __-B'                               : :",
        "     10 +        __--'                                    : :",
        "        |    A--'                                         : :",
        "        |_-''                                             : :",
        "        |    o                                            : :",
        "        +----+-------------------+--------------------+---^-^--------------+----",
        "             1                  10                   100                 1000",
        "                                                   ridge 153 / 185     FLOP/byte",
        "",
        "  = bfloat16 burst                 828 TFLOP/s   ridge 185 FLOP/byte",
        "  ~ bfloat16 sustained             684 TFLOP/s   ridge 153 FLOP/byte",
        "  / device memory, read            4469 GB/s",
        "  o o_proj                         3 measured",
        "  A decode GEMV, batch 1           1.00 FLOP/byte   <= 4.47 TFLOP/s   memory",
        "  B decode attention, GQA g=4      4.00 FLOP/byte   <= 17.9 TFLOP/s   memory",
        "  C prefill GEMM, T=2048, d=4096   1024 FLOP/byte   <= 828 TFLOP/s   compute",
    ]


def test_a_chart_is_drawn_with_box_lines_where_a_terminal_has_them() -> None:
    """The same picture, finer."""
    assert h200()[:18] == [
        "NVIDIA H200",
        "TFLOP/s",
        "    828 ┤                                                   ◆━━━━━━━━━━━━━━C━━━━",
        "    684 ┤                                              __─◆════════════════●════",
        "        │                                         __──‾   ┊ ┊",
        "        │                                     _──‾        ┊ ┊",
        "    100 ┤                                __─‾‾            ┊ ┊",
        "        │                           __─‾‾  ●              ┊ ┊",
        "        │                       _──‾                      ┊ ┊",
        "        │                  _──‾‾                          ┊ ┊",
        "        │             __─B‾                               ┊ ┊",
        "     10 ┤        __──‾                                    ┊ ┊",
        "        │    A──‾                                         ┊ ┊",
        "        │_─‾‾                                             ┊ ┊",
        "        │    ●                                            ┊ ┊",
        "        └────┴───────────────────┴────────────────────┴───▲─▲──────────────┴────",
        "             1                  10                   100                 1000",
        "                                                   ridge 153 / 185     FLOP/byte",
    ]


def test_a_chart_with_its_legend_fits_a_terminal() -> None:
    """18 rows of 80 columns, and a legend below a blank line."""
    lines = h200()

    assert lines.index("") == 18
    assert max(map(display_width, lines)) <= 80


def test_both_axes_carry_their_units() -> None:
    """TFLOP/s upwards, FLOP/byte to the right."""
    lines = h200()

    assert lines[1] == "TFLOP/s"
    assert lines[17].endswith("FLOP/byte")


def test_the_legend_gives_the_numbers_behind_the_marks() -> None:
    """A log axis hides a loss of 17 %; the legend does not."""
    assert h200()[19:] == [
        "  ━ bfloat16 burst                 828 TFLOP/s   ridge 185 FLOP/byte",
        "  ═ bfloat16 sustained             684 TFLOP/s   ridge 153 FLOP/byte",
        "  ╱ device memory, read            4469 GB/s",
        "  ● o_proj                         3 measured",
        "  A decode GEMV, batch 1           1.00 FLOP/byte   ≤ 4.47 TFLOP/s   memory",
        "  B decode attention, GQA g=4      4.00 FLOP/byte   ≤ 17.9 TFLOP/s   memory",
        "  C prefill GEMM, T=2048, d=4096   1024 FLOP/byte    ≤ 828 TFLOP/s   compute",
    ]


def test_a_chart_without_bandwidth_shows_the_flat_roof_alone() -> None:
    """Half a measurement is still a picture, without a ridge."""
    chart = roofline_chart([BURST], None)

    assert "ridge" not in chart
    assert f"    828 ┤{'━' * 71}" in chart.splitlines()


def test_a_chart_without_compute_shows_the_slope_alone() -> None:
    """From edge to edge."""
    lines = roofline_chart([], READ).splitlines()

    assert "ridge" not in "\n".join(lines)
    assert all(any(line[column : column + 1] in ("_", "─", "‾") for line in lines[1:14]) for column in range(9, 80))


def test_equal_roofs_share_a_line_and_a_ridge() -> None:
    """The value is printed once below the axis."""
    chart = roofline_chart([BURST, ComputeRoof("again", 828.0)], READ)

    assert chart.count("ridge 185\n") == 0
    assert chart.splitlines()[16].split() == ["ridge", "185", "FLOP/byte"]


def test_workloads_of_one_intensity_stand_one_above_the_other() -> None:
    """No letter hides another."""
    plot = "\n".join(roofline_chart([BURST], READ, workloads=[Workload("one", 10.0)] * 3).splitlines()[1:14])

    assert [plot.count(letter) for letter in "ABC"] == [1, 1, 1]


def test_more_workloads_of_one_intensity_than_rows_still_draw() -> None:
    """The legend names them all, the plot as many as it has rows for."""
    chart = roofline_chart([BURST], READ, workloads=[Workload("same", 10.0)] * 20)

    assert chart.count("same") == 20


def test_a_slope_steeper_than_the_grid_has_no_holes() -> None:
    """Over 20 decades of intensity the memory roof rises several rows from one column to the next."""
    chart = roofline_chart(
        [ComputeRoof("pi", 1.0)], MemoryRoof("beta", 1000.0), workloads=[Workload("low", 0.1), Workload("high", 1e18)]
    )
    plot = [line[9:] for line in chart.splitlines()[1:14]]

    top = next(row for row, line in enumerate(plot) if "◆" in line)
    bottom = next(row for row, line in enumerate(plot) if "A" in line)
    assert all(any(glyph in line for glyph in "_─‾╱◆A") for line in plot[top : bottom + 1])
    assert "╱" in "".join(plot)


def test_names_cannot_act_on_the_terminal() -> None:
    """Escape sequences in labels are shown."""
    chart = roofline_chart([ComputeRoof("\x1b[2J", 1.0)], None, title="\x1b]0;evil\x07")

    assert "\x1b" not in chart
    assert r"\x1b[2J" in chart


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_no_log_axis_has_are_refused_by_name(bad: float) -> None:
    """The message says which, and what to do."""
    with pytest.raises(
        ValueError, match=r"pi of 'x' must be a positive, finite number.*leave out what was not measured"
    ):
        roofline_chart([ComputeRoof("x", bad)], READ)
    with pytest.raises(ValueError, match="beta of 'x'"):
        roofline_chart([], MemoryRoof("x", bad))
    with pytest.raises(ValueError, match="a point of 'x'"):
        roofline_chart([BURST], READ, series=[Series("x", ((1.0, bad),))])
    with pytest.raises(ValueError, match="intensity of 'x'"):
        roofline_chart([BURST], READ, workloads=[Workload("x", bad)])


def test_a_chart_needs_a_roof() -> None:
    """Points alone have nothing to be held against."""
    with pytest.raises(ValueError, match="at least one"):
        roofline_chart([], None, series=[POINTS])


def test_a_terminal_may_be_too_narrow() -> None:
    """The message says how much is needed."""
    with pytest.raises(ValueError, match=f"at least {NARROWEST} columns, not 39"):
        roofline_chart([BURST], READ, width=39)


@given(
    compute=compute_roofs,
    memory=memory_roofs,
    series=some_series,
    workloads=some_workloads,
    title=labels,
    width=st.integers(NARROWEST, 200),
    ascii_only=st.booleans(),
)
def test_no_measurement_breaks_the_chart(
    compute: list[ComputeRoof],
    memory: MemoryRoof,
    series: list[Series],
    workloads: list[Workload],
    title: str,
    width: int,
    ascii_only: bool,
) -> None:
    """Any positive numbers, from the smallest to the largest, and any names: every line fits."""
    chart = roofline_chart(
        compute, memory, series=series, workloads=workloads, title=title, width=width, ascii_only=ascii_only
    )

    assert max(map(display_width, chart.split("\n"))) <= width
    assert not ascii_only or chart.isascii()


@given(compute=compute_roofs.filter(bool), series=some_series, workloads=some_workloads)
def test_no_measurement_breaks_a_chart_without_bandwidth(
    compute: list[ComputeRoof], series: list[Series], workloads: list[Workload]
) -> None:
    """The compute half alone, whatever its numbers."""
    chart = roofline_chart(compute, None, series=series, workloads=workloads)

    assert max(map(display_width, chart.split("\n"))) <= 80


@given(pi_tflops=st.floats(1e-3, 1e5), beta_gbps=st.floats(1, 1e5))
def test_the_ridge_is_marked_where_slope_and_roof_meet(pi_tflops: float, beta_gbps: float) -> None:
    """Corner in the plot and pointer below the axis stand in one column."""
    lines = roofline_chart([ComputeRoof("pi", pi_tflops)], MemoryRoof("beta", beta_gbps)).splitlines()

    corner = next(line.index("◆") for line in lines if "◆" in line)
    assert [corner] == [column for column, char in enumerate(lines[14]) if char == "▲"]
