"""Text from others in CSV that a spreadsheet opens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleetridge.csv_injection import escaped_formula


@given(st.text())
def test_no_defused_text_starts_like_a_formula(text: str) -> None:
    assert not escaped_formula(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert escaped_formula(text).removeprefix("'") == text.removeprefix("'")
