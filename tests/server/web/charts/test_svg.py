"""SVG as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.web.charts.svg import coordinate, element, escaped, words
from support.drawn import parsed


@given(st.text())
def test_any_name_is_text_and_never_markup(name: str) -> None:
    """Names come from machines that nobody vouches for."""
    drawn = parsed(element("g", {"aria-label": name}, words(name, 0, 0)))

    assert [child.tag for child in drawn] == ["text"]
    assert drawn[0].text in (None, drawn.get("aria-label"))


def test_what_xml_forbids_is_spelled_out() -> None:
    """A control character in a name must not make the whole page unreadable."""
    assert escaped('a\x1b<b> & "c"\u202e') == "a\\x1b&lt;b&gt; &amp; &quot;c&quot;\\u202e"


def test_coordinates_are_short() -> None:
    """A chart has thousands of them."""
    assert [coordinate(value) for value in (12.0, 12.34, -0.04, 0.0, -3.25)] == ["12", "12.3", "0", "0", "-3.2"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_refused(value: float) -> None:
    """A browser would drop the mark, or all that follows, without a word."""
    with pytest.raises(ValueError, match="leave out what was not measured"):
        coordinate(value)
