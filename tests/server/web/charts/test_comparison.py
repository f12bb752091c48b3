"""Groups beside one another, and gpus beside themselves before a change."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.web.charts.comparison import ComparedGroup, ComparisonChart, comparison_svg
from fleetridge_server.web.charts.svg import Layout
from support.drawn import all_of, comparison_chart, parsed, texts, titles

OLD, NEW = "550.54.15", "560.28.03"


def test_a_change_says_what_it_did_to_the_same_gpus_and_how_sure_that_is() -> None:
    assert f"{OLD} → {NEW}: 8 gpus with themselves −2.1 % (−2.5 % to −1.7 %)" in titles(
        comparison_svg(comparison_chart(OLD, NEW))
    )


def test_a_group_says_its_median_and_its_distance_from_the_largest() -> None:
    said = titles(comparison_svg(comparison_chart(OLD, NEW)))

    assert f"{OLD}: 9 gpus, median 781 TFLOP/s, reference" in said
    assert f"{NEW}: 9 gpus, median 765 TFLOP/s, −2.0 % (−3.0 % to −1.0 %)" in said


def test_what_hovering_shows_focus_shows() -> None:
    """Every lane is a stop of the tab key with words beside it."""
    svg = comparison_svg(comparison_chart(OLD, NEW))
    marks = all_of(svg, "g", "fr-mark")

    assert len(marks) == 5
    assert {mark.get("tabindex") for mark in marks} == {"0"}
    assert len(all_of(svg, "g", "fr-tip")) == 5


@pytest.mark.parametrize("layout", Layout)
def test_slower_is_to_the_left_and_the_reference_on_the_middle_line(layout: Layout) -> None:
    svg = comparison_svg(comparison_chart(OLD, NEW), layout)
    medians = [float(own.get("d", "")[1:].split()[0]) for own in all_of(svg, "path", "fr-median")][:2]
    [middle] = {
        float(x) for own in all_of(svg, "path", "fr-axis") for x in re.findall(r"M([\d.]+) [\d.]+V", own.get("d", ""))
    }

    assert medians[0] == middle
    assert medians[1] < middle


@pytest.mark.parametrize("layout", Layout)
def test_a_group_that_lies_absurdly_far_stays_on_the_chart(layout: Layout) -> None:
    chart = comparison_chart(OLD, NEW)
    far = ComparedGroup("broken", Distribution(4, 1.0, 1.0, 1.0, 1.0, 9e9))
    roofs = tuple(replace(roof, groups=(*roof.groups, far)) for roof in chart.roofs)

    svg = comparison_svg(replace(chart, roofs=roofs), layout)

    xs = [float(x) for own in all_of(svg, "path") for x in re.findall(r"[MH]([\d.-]+)", own.get("d", ""))]
    assert 0 <= min(xs) <= max(xs) <= layout.units


def test_of_many_groups_the_largest_are_drawn_and_the_others_counted() -> None:
    svg = comparison_svg(comparison_chart(*(f"driver {number}" for number in range(12))))

    assert "and 4 smaller groups in the table" in texts(svg)
    assert "driver 8" not in "".join(titles(svg))


def test_long_names_give_way_to_their_figures() -> None:
    svg = comparison_svg(comparison_chart("a" * 255, "b" * 255), Layout.NARROW)

    assert [own for own in texts(svg) if own.endswith("9 gpus, 765 TFLOP/s, −2.0 %")]
    assert all(len(own) < 70 for own in texts(svg))


def test_nothing_to_compare_is_said_in_words() -> None:
    svg = comparison_svg(ComparisonChart("H200: what a driver does", ()))

    assert "There is nothing to compare." in texts(svg)
    assert parsed(svg).get("aria-label") == "H200: what a driver does"
