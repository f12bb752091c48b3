"""One gpu's past."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.web.charts.axes import width_of
from fleetridge_server.web.charts.history import history_svg
from fleetridge_server.web.charts.history_panel import (
    EpochMark,
    FailedRun,
    HistoryChart,
    HistoryPanel,
    PeerBand,
    VerdictMark,
)
from fleetridge_server.web.charts.svg import Layout
from support.drawn import START, all_of, history_chart, texts, titles


def trace(chart: HistoryChart) -> str:
    """Commands of the line through the runs."""
    (line,) = all_of(history_svg(chart), "path", "fr-trace")
    return line.get("d", "")


def test_every_run_is_a_point_and_later_ones_stand_further_right() -> None:
    """Whatever their order in the answer."""
    svg = history_svg(history_chart(5, 1, 3, 2, 4))
    panel = [own for own in all_of(svg, "circle", "fr-peer") if own.get("r") == "3.2"][:5]
    xs = [float(own.get("cx", "nan")) for own in panel]

    assert len(panel) == 5
    assert xs == sorted(xs)


def test_a_gap_in_time_is_a_gap_in_the_line() -> None:
    """Nobody knows what the gpu did meanwhile."""
    assert trace(history_chart(0, 1, 2, 9, 10, 11)).count("M") == 2


def test_jitter_of_the_schedule_is_no_gap() -> None:
    """A day and two hours after the last run is still the next day."""
    assert trace(history_chart(0, 1, 2.1, 2.9, 4)).count("M") == 1


def test_changes_are_numbered_marks_and_told_below() -> None:
    """In the order in which they happened."""
    marks = (EpochMark(START + timedelta(days=3), "torch 2.6 → 2.7"), EpochMark(START + timedelta(days=1), "driver"))
    svg = history_svg(replace(history_chart(0, 1, 2, 3, 4), epochs=marks))

    assert "2026-03-02 driver" in texts(svg)
    assert "2026-03-04 torch 2.6 → 2.7" in texts(svg)
    assert texts(svg).count("1") == texts(svg).count("2") == 2


def test_verdicts_have_words_and_runs_that_failed_their_reasons() -> None:
    """By sign and word, not by colour alone."""
    chart = replace(
        history_chart(0, 1, 2, 3, 4),
        verdicts=(VerdictMark(START, "ok"), VerdictMark(START + timedelta(days=2), "outlier")),
        failed=(FailedRun(START + timedelta(days=1.5), "already_running"),),
    )
    svg = history_svg(chart)

    assert {"ok", "outlier"} <= set(texts(svg))
    assert "2026-03-02 18:00 UTC: already running" in titles(svg)


def test_an_end_after_the_last_run_shows_the_silence() -> None:
    """A gpu that fell silent must not look as if it had just reported."""
    chart = history_chart(0, 1, 2)
    ends = [
        float(all_of(history_svg(own), "circle", "fr-peer")[2].get("cx", "nan"))
        for own in (chart, replace(chart, until=START + timedelta(days=10)))
    ]

    assert ends[1] < ends[0]


@pytest.mark.parametrize("layout", list(Layout))
def test_an_end_at_the_last_moment_that_there_is_can_be_drawn(layout: Layout) -> None:
    """There is no tick after it."""
    svg = history_svg(replace(history_chart(0, 1, 2), until=datetime.max.replace(tzinfo=timezone.utc)), layout)

    assert len(all_of(svg, "circle", "fr-peer")) >= 3


@pytest.mark.parametrize("hours", [0, 1, 11])
def test_runs_in_the_last_hours_that_there_are_can_be_drawn(hours: int) -> None:
    """An axis is at least half a day long, and does not reach beyond the calendar."""
    last = datetime.max.replace(tzinfo=timezone.utc) - timedelta(hours=hours)
    chart = history_chart(0)
    points = tuple(replace(chart.panels[0].points[0], at=at) for at in (last, last - timedelta(minutes=1)))
    svg = history_svg(replace(chart, panels=(replace(chart.panels[0], points=points),)))

    assert len([title for title in titles(svg) if "UTC: " in title]) == len(points)


@given(
    st.lists(st.tuples(st.floats(0, 4000), st.floats(1e-3, 1e6)), min_size=1, max_size=20),
    st.none() | st.floats(1e-3, 1e6),
    st.sampled_from(list(Layout)),
)
def test_any_past_can_be_drawn(runs: list[tuple[float, float]], middle: float | None, layout: Layout) -> None:
    """One run, runs at one time, equal values."""
    points = tuple(history_chart(day, value=value).panels[0].points[0] for day, value in runs)
    band = None if middle is None else PeerBand(0.99 * middle, middle, 1.01 * middle)
    svg = history_svg(HistoryChart("any", (HistoryPanel("pi", "TFLOP/s", points, band),)), layout)

    assert "nan" not in svg
    assert len([title for title in titles(svg) if "UTC: " in title]) == len(runs)


@pytest.mark.parametrize(
    "chart", [HistoryChart("none", ()), HistoryChart("none", (HistoryPanel("pi", "TFLOP/s", ()),))]
)
def test_no_runs_are_said_in_words(chart: HistoryChart) -> None:
    """An empty past is no error."""
    assert "No runs are known yet." in texts(history_svg(chart))


def test_a_panel_without_readings_says_so() -> None:
    """Not every driver tells its power."""
    chart = history_chart(0, 1)
    svg = history_svg(replace(chart, panels=(*chart.panels, HistoryPanel("power", "W", ()))))

    assert "power  no reading" in texts(svg)


def test_a_run_beyond_the_limit_has_another_shape_and_one_with_a_remark_is_hollow() -> None:
    """Both say in words what they are."""
    chart = history_chart(0, 1, 2)
    first, second, third = chart.panels[0].points
    points = (first, replace(second, accused=True), replace(third, note="contended"))
    svg = history_svg(replace(chart, panels=(replace(chart.panels[0], points=points),)))

    assert "2026-03-02 06:00 UTC: 781 TFLOP/s, beyond the limit" in titles(svg)
    assert "2026-03-03 06:00 UTC: 781 TFLOP/s, contended" in titles(svg)
    assert len(all_of(svg, "circle", "fr-unsure")) == 2  # the run, and its sample in the key


def test_a_span_too_short_for_its_word_can_be_focused_instead() -> None:
    """A day as suspect between weeks as ok and outlier."""
    verdicts = (
        VerdictMark(START, "ok"),
        VerdictMark(START + timedelta(days=50), "suspect"),
        VerdictMark(START + timedelta(days=51), "outlier"),
    )
    svg = history_svg(replace(history_chart(0, 50, 51, 100), verdicts=verdicts))
    stops = [own for own in all_of(svg, "g", "fr-mark") if own.get("tabindex") == "0"]

    assert [own[0].text for own in stops] == ["suspect from 2026-04-20 06:00 UTC"]


@pytest.mark.parametrize("layout", Layout)
def test_the_last_time_on_the_axis_is_not_cut_off(layout: Layout) -> None:
    """Midnight is where an answer of a daily job ends."""
    midnight = START.replace(hour=0) + timedelta(days=8)
    svg = history_svg(replace(history_chart(0, 1, 2, 3, 4, 5, 6, 7), until=midnight), layout)
    last = max(
        (own for own in all_of(svg, "text", "fr-tick") if own.get("text-anchor") == "middle"),
        key=lambda own: float(own.get("x", "nan")),
    )

    assert last.text is not None
    assert float(last.get("x", "nan")) + width_of(last.text) / 2 <= layout.units


def test_a_verdict_of_this_very_moment_leaves_no_empty_lane() -> None:
    """There is no width to draw it in; the page says it in words."""
    now = START + timedelta(days=4)
    chart = replace(history_chart(0, 1, 2, 3), until=now, verdicts=(VerdictMark(now, "outlier"),))

    assert "verdict" not in texts(history_svg(chart))
    assert "verdict" in texts(history_svg(replace(chart, until=now + timedelta(days=2))))


def test_the_newest_value_stands_beside_a_long_name_on_a_narrow_chart() -> None:
    """The middle of the name gives way."""
    chart = history_chart(0, 1, 2)
    panel = replace(chart.panels[0], label="temperature in pi float8_e4m3fn fast-acc sustained", unit="°C")
    [head] = [own for own in texts(history_svg(replace(chart, panels=(panel,)), Layout.NARROW)) if "newest" in own]

    assert head.startswith("tempera")
    assert head.endswith("newest 781 °C")
    assert width_of(head) < Layout.NARROW.units - 16
