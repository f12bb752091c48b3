"""Tables and blocks for a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.terminal_text import display_width
from fleetridge.text_table import Column, key_values, text_table

SHAPES = [Column("shape"), Column("M"), Column("pi", "TFLOP/s"), Column("I", "FLOP/byte")]
GPUS = [Column("gpu"), Column("node"), Column("pi", "TFLOP/s"), Column("reason", align="left")]


def test_a_table_aligns_text_left_and_numbers_right() -> None:
    """Units stand below the names; the first column is text."""
    rows = [["fused QKV", "1", "2.41", "1.00"], ["o_proj", "16384", "712", "1820"]]

    assert text_table(SHAPES, rows, title="Llama-3.1-8B") == "\n".join(
        [
            "Llama-3.1-8B",
            "shape          M       pi          I",
            "          TFLOP/s  FLOP/byte".rjust(36),
            "---------  -----  -------  ---------",
            "fused QKV      1     2.41       1.00",
            "o_proj     16384      712       1820",
        ]
    )


def test_a_table_without_units_has_one_line_of_heads() -> None:
    """No empty line stands in their place."""
    assert text_table([Column("kernel"), Column("ms")], [["copy", "0.48"]]).splitlines() == [
        "kernel    ms",
        "------  ----",
        "copy    0.48",
    ]


def test_a_table_without_rows_still_shows_its_heads() -> None:
    """An empty answer is an answer."""
    assert text_table([Column("gpu"), Column("pi")], []).splitlines() == ["gpu  pi", "---  --"]


def test_the_widest_text_gives_way_first_and_numbers_stay_whole() -> None:
    """The short text beside it is not touched."""
    rows = [["GPU-0123", "n17", "684", "power limit 500 W, peers have 700 W: 17 % below the median"]]

    last = text_table(GPUS, rows, width=50).splitlines()[-1]

    assert last == "GPU-0123   n17      684  power limit 500 W, peers…"


def test_two_long_texts_share_the_loss() -> None:
    """Both end up equally wide rather than one vanishing."""
    columns = [Column("node"), Column("reason", align="left"), Column("pi")]
    rows = [["n" * 60, "r" * 60, "684"]]

    assert text_table(columns, rows, width=40).splitlines()[-1] == f"{'n' * 15}…  {'r' * 15}…  684"


def test_columns_go_from_the_right_where_shortening_does_not_suffice() -> None:
    """A last line names them, and no number is cut."""
    columns = [Column("gpu"), *(Column(f"pi_{index}", "TFLOP/s") for index in range(5))]
    rows = [["GPU-0", *["123456789.0"] * 5]]

    lines = text_table(columns, rows, width=40).splitlines()

    assert lines[-2] == "GPU-0  123456789.0  123456789.0"
    assert lines[-1] == "(too wide for 40 columns, left out: pi_…"


def test_an_escape_sequence_in_a_name_is_shown_and_harmless() -> None:
    """Names come from strangers."""
    table = text_table([Column("device"), Column("n")], [["\x1b[31mH200\nfake row", "8"]])

    assert table.splitlines()[-1] == r"\x1b[31mH200\nfake row  8"


def test_wide_characters_keep_the_columns_straight() -> None:
    """Each takes two columns of a terminal."""
    table = text_table([Column("node"), Column("pi")], [["加速器", "684"], ["n1", "828"]])

    assert table.splitlines()[-2:] == ["加速器  684", "n1      828"]


def test_a_row_of_another_length_is_refused() -> None:
    """A shifted column would be a wrong number."""
    with pytest.raises(ValueError, match="a row has 1 cells where the table has 2 columns"):
        text_table([Column("gpu"), Column("pi")], [["GPU-0"]])


def test_a_table_needs_a_column() -> None:
    """There is nothing to print otherwise."""
    with pytest.raises(ValueError, match="at least one column"):
        text_table([], [])


@given(
    rows=st.lists(st.lists(st.text(max_size=60), min_size=4, max_size=4), max_size=5),
    title=st.text(max_size=120),
    width=st.integers(min_value=1, max_value=120),
)
def test_no_line_of_a_table_is_wider_than_the_terminal(rows: list[list[str]], title: str, width: int) -> None:
    """And no row becomes two."""
    lines = text_table(GPUS, rows, title=title, width=width).split("\n")

    assert max(map(display_width, lines)) <= width
    assert len(lines) <= len(rows) + 5


def test_names_and_values_stand_in_two_columns() -> None:
    """The title is underlined."""
    block = key_values([("device", "NVIDIA H200"), ("driver", "580.95.05"), ("vbios", "–")], title="Environment")

    assert block.splitlines() == [
        "Environment",
        "-----------",
        "device  NVIDIA H200",
        "driver  580.95.05",
        "vbios   –",
    ]


def test_a_long_value_goes_on_below() -> None:
    """Nothing that someone may want to paste is lost."""
    block = key_values([("arguments", "--profile standard --dtype bfloat16 tf32")], width=32)

    assert block.splitlines() == ["arguments  --profile standard", "           --dtype bfloat16 tf32"]


def test_a_value_with_a_line_break_stays_one_value() -> None:
    """It is spelled out like every control character."""
    assert key_values([("name", "a\nb")]) == r"name  a\nb"


@given(
    pairs=st.lists(st.tuples(st.text(max_size=60), st.text(max_size=200)), max_size=5),
    title=st.text(max_size=120),
    width=st.integers(min_value=10, max_value=100),
)
def test_no_line_of_a_block_is_wider_than_the_terminal(pairs: list[tuple[str, str]], title: str, width: int) -> None:
    """Whatever the names and values."""
    lines = key_values(pairs, title=title, width=width).split("\n")

    assert max(map(display_width, lines)) <= width
