"""Room for labels."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.web.charts.axes import callouts, fitted, pushed_apart, rows_without_overlap, squeezed, width_of

places = st.lists(st.floats(0, 500), max_size=12)


@given(places)
def test_labels_that_are_pushed_apart_keep_their_order_and_their_distance(wanted: list[float]) -> None:
    """A label never changes sides with its neighbour."""
    found = pushed_apart(wanted, 17, 0, 500)
    in_order = [found[index] for index in sorted(range(len(wanted)), key=lambda index: wanted[index])]

    assert all(upper - lower >= 17 - 1e-6 for lower, upper in pairwise(in_order))
    assert all(-1e-6 <= place <= 500 + 1e-6 for place in found)


def test_labels_with_room_stay_where_they_belong() -> None:
    """Only what collides moves."""
    assert pushed_apart([10, 100, 104], 10, 0, 200) == [10, 97, 107]


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(1, 150)), max_size=12))
def test_spans_of_one_row_never_meet(given_spans: list[tuple[float, float]]) -> None:
    """What has no room has no row."""
    spans = [(start, start + width) for start, width in given_spans]
    rows = rows_without_overlap(spans, 3)
    placed = [(row, span) for row, span in zip(rows, spans, strict=True) if row is not None]

    assert all(
        row != other_row or end <= other_start or other_end <= start
        for (row, (start, end)), (other_row, (other_start, other_end)) in combinations(placed, 2)
    )


@given(st.lists(st.tuples(st.floats(20, 340), st.floats(20, 150)), max_size=10))
def test_no_line_to_a_name_crosses_another_name(marks: list[tuple[float, float]]) -> None:
    """Nor do two names meet, nor does one leave the chart."""
    found = callouts([x for x, _ in marks], [width for _, width in marks], 3, 0, 360)
    placed = [(x, width, place) for (x, width), place in zip(marks, found, strict=True) if place is not None]

    for (x, width, place), (other_x, other_width, other) in combinations(placed, 2):
        if place.row == other.row:
            assert place.start + width <= other.start or other.start + other_width <= place.start
        elif place.row < other.row:
            assert not place.start < other_x < place.start + width
        else:
            assert not other.start < x < other.start + other_width
    assert all(place.start >= 0 and place.start + width <= 360 + 1e-6 for _, width, place in placed)


@given(st.text(max_size=80), st.floats(20, 300))
def test_words_are_cut_to_the_width_that_there_is(content: str, width: float) -> None:
    """However wide their characters are; at least one of them stays."""
    assert width_of(fitted(content, width)) <= max(width, 2 * width_of("n"))
    assert width_of(squeezed(content, width)) <= max(width, 2 * width_of("n"))


def test_a_squeezed_name_keeps_the_end_that_tells_it_from_others() -> None:
    """Nodes of a cluster begin alike."""
    assert [squeezed(f"gpu-node-with-a-long-name-{number}", 86) for number in (17, 18)] == [
        "gpu-…name-17",
        "gpu-…name-18",
    ]
