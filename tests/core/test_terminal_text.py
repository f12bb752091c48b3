"""Text that is safe and straight in a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge import terminal_text

widths = st.integers(min_value=0, max_value=40)
visible_text = st.text().map(terminal_text.visible)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("NVIDIA H200", "NVIDIA H200"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("bell\x07", r"bell\x07"),
        ("c1 \x9b2J", r"c1 \x9b2J"),
        ("\u202eevil", r"\u202eevil"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("line\u2028end", r"line\u2028end"),
        ("half \ud800", r"half \ud800"),
        ("größe 加速 ≤", "größe 加速 ≤"),
    ],
)
def test_what_a_terminal_would_act_upon_is_spelled_out(raw: str, shown: str) -> None:
    """Letters of every script stay as they are."""
    assert terminal_text.visible(raw) == shown


@given(st.text())
def test_visible_text_holds_nothing_that_acts(raw: str) -> None:
    """No control, format, surrogate, private or unassigned character, and no line break, gets through."""
    shown = terminal_text.visible(raw)

    assert not [char for char in shown if unicodedata.category(char).startswith("C")]
    assert len(shown.splitlines()) <= 1
    assert terminal_text.visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("H200", 4),
        ("加速器", 6),
        ("ｶﾅ", 2),
        ("Ａ", 2),
        ("é", 1),
        ("e\u0301", 1),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
    ],
)
def test_a_width_is_what_a_terminal_takes(text: str, columns: int) -> None:
    """Wide characters take two columns, marks on another character none."""
    assert terminal_text.display_width(text) == columns


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("NVIDIA H200", 11, "NVIDIA H200"),
        ("NVIDIA H200", 8, "NVIDIA …"),
        ("加速器", 6, "加速器"),
        ("加速器", 5, "加速…"),
        ("加速器", 4, "加…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_long_text_ends_in_an_ellipsis(text: str, width: int, short: str) -> None:
    """A wide character is never cut in half."""
    assert terminal_text.shortened(text, width) == short


@given(visible_text, widths)
def test_shortened_text_fits(text: str, width: int) -> None:
    """Whatever the script."""
    assert terminal_text.display_width(terminal_text.shortened(text, width)) <= width


@given(visible_text, widths)
def test_padded_text_fills_its_column(text: str, width: int) -> None:
    """On either side."""
    short = terminal_text.shortened(text, width)

    assert terminal_text.display_width(terminal_text.padded(short, width)) == width
    assert terminal_text.padded(short, width, right=True).endswith(short)


def test_wrapped_text_breaks_between_words() -> None:
    """A word that is longer than the line is broken inside."""
    assert terminal_text.wrapped("one two three abcdefghij", 7) == ["one two", "three", "abcdefg", "hij"]


@given(visible_text, st.integers(min_value=2, max_value=40))
def test_wrapping_loses_nothing_and_fits(text: str, width: int) -> None:
    """Only spaces may go."""
    lines = terminal_text.wrapped(text, width)

    assert text.replace(" ", "") == "".join(lines).replace(" ", "")
    assert all(terminal_text.display_width(line) <= width for line in lines)
