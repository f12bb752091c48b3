"""Deviation strips."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.web.charts.strip import strip_svg
from fleetridge_server.web.charts.strip_marks import GpuDeviation, Strip, StripChart
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.symbols import DrawnGpu
from support.drawn import all_of, gpu, parsed, strip_chart, strip_of, texts, titles

deviations = st.lists(st.floats(-1, 20), min_size=1, max_size=40)


def drawn(*found: float, limit: float | None = None, layout: Layout = Layout.WIDE) -> str:
    """A strip of healthy gpus."""
    own = tuple(GpuDeviation(gpu(number), 100 * (1 + value), value) for number, value in enumerate(found))
    return strip_svg(StripChart("one", (Strip("pi", "TFLOP/s", 100, own, limit),)), layout)


@given(deviations, st.sampled_from(list(Layout)))
def test_every_gpu_has_a_dot_in_the_order_of_the_deviations(found: list[float], layout: Layout) -> None:
    """Equal values and absurd ones included; none leaves the chart."""
    svg = drawn(*found, layout=layout)
    xs = {
        title.split(":")[0]: float(link.findall("{*}circle")[0].get("cx", "nan"))
        for link in all_of(svg, "a", "fr-mark")
        for title in [link[0].text or ""]
    }
    in_order = [xs[gpu(number).label] for number in sorted(range(len(found)), key=lambda number: found[number])]

    assert len(xs) == len(found)
    assert in_order == sorted(in_order)
    assert all(0 <= x <= layout.units for x in in_order)


def test_the_axis_holds_what_healthy_and_broken_gpus_usually_are() -> None:
    """So that a fleet without faults looks like one, and charts can be compared."""
    said = texts(drawn(0.001, -0.002))

    assert {"−35 %", "−5 %", "0", "+5 %"} <= set(said)


def test_the_axis_grows_with_what_it_has_to_hold() -> None:
    """Nothing lies beyond it on the slow side."""
    assert "−80 %" in texts(drawn(-0.77, 0.0))


@pytest.mark.parametrize("count", [1, 8, 64, 200])
def test_a_strip_of_dots_has_one_for_each_gpu(count: int) -> None:
    """None is left out."""
    svg = strip_svg(StripChart("fleet", (strip_of(count),)))

    assert len(all_of(svg, "a", "fr-mark")) == count


@pytest.mark.parametrize("count", [201, 10_000])
def test_bars_and_dots_together_count_every_gpu(count: int) -> None:
    """Those that stand out are dots, the others are counted."""
    svg = strip_svg(StripChart("fleet", (strip_of(count),)))
    counted = sum(int(found[1]) for title in titles(svg) if (found := re.match(r"(\d+) gpus? from", title)))

    assert counted + len(all_of(svg, "a", "fr-mark")) == count
    assert len(all_of(svg, "a", "fr-mark")) < 10


def test_a_slow_gpu_has_its_name_its_shape_and_a_stop_of_the_tab_key() -> None:
    """Seen at once, by colour and without it; its peers do not stand in the way of the keyboard."""
    svg = strip_svg(StripChart("fleet", (strip_of(64),)))
    stops = [link for link in all_of(svg, "a", "fr-mark") if link.get("tabindex") == "0"]

    assert [link[0].text for link in stops] == ["n000 gpu 3: 648 TFLOP/s, −17.0 %, outlier"]
    assert stops[0].findall("{*}path[@class='fr-accused']")
    assert "n000 gpu 3 −17.0 %" in texts(svg)


def test_what_focus_shows_is_what_hovering_shows() -> None:
    """The tip has the words of the title."""
    svg = strip_svg(StripChart("fleet", (strip_of(64),)))
    (link,) = [link for link in all_of(svg, "a", "fr-mark") if link.get("tabindex") == "0"]
    (tip,) = link.findall("{*}g[@class='fr-tip']/{*}text")

    assert tip.text == link[0].text


def test_a_gpu_that_is_accused_of_another_roof_is_plain_where_it_keeps_up() -> None:
    """Its words still say that it is accused."""
    own = (GpuDeviation(gpu(0, "outlier"), 100.0, 0.0), GpuDeviation(gpu(1), 100.0, 0.0))
    svg = strip_svg(StripChart("beta", (Strip("beta", "GB/s", 100, own, 0.03),)))

    assert not all_of(svg, "path", "fr-accused")
    assert any("outlier" in title for title in titles(svg))


def test_a_published_figure_off_the_axis_is_an_arrow_and_a_number() -> None:
    """Published peaks lie a quarter above what is measured, the axis ends at 5 %."""
    svg = strip_svg(StripChart("fleet", (strip_of(8),)))

    assert all_of(svg, "path", "fr-arrow")
    assert any("published 989 TFLOP/s (+26." in text for text in texts(svg))


def test_more_names_than_there_is_room_for_are_counted() -> None:
    """Thirty slow gpus cannot all be named."""
    own = tuple(GpuDeviation(gpu(number, "outlier"), 80.0, -0.2) for number in range(30))
    healthy = tuple(GpuDeviation(gpu(number), 100.0, 0.0) for number in range(30, 90))
    svg = strip_svg(StripChart("fleet", (Strip("pi", "TFLOP/s", 100, own + healthy, 0.03),)))
    (rest,) = [text for text in texts(svg) if "more that stand out" in text]
    named = [text for text in texts(svg) if text.endswith(" −20.0 %") and ":" not in text and "gpu" in text]

    assert int(rest.split()[1]) + len(named) == 30


def test_gpus_of_one_label_are_all_drawn() -> None:
    """Two clusters may have a node of the same name."""
    own = tuple(GpuDeviation(DrawnGpu("n1 gpu 0", "ok", f"/ui/gpus/{number}"), 100.0, 0.0) for number in range(2))
    svg = strip_svg(StripChart("fleet", (Strip("pi", "TFLOP/s", 100, own),)))

    assert len(all_of(svg, "a", "fr-mark")) == 2


def test_strips_without_gpus_are_left_out() -> None:
    """And where none has any, the chart says so."""
    some = strip_svg(StripChart("fleet", (strip_of(8), replace(strip_of(8), gpus=(), label="beta read"))))

    assert not any("beta read" in text for text in texts(some))
    assert "No gpu was measured yet." in texts(strip_svg(StripChart("fleet", ())))


def test_a_chart_says_in_words_what_it_shows() -> None:
    """For those who do not see it."""
    (described,) = parsed(strip_svg(strip_chart(64))).findall("{*}desc")

    assert "limit −3.0 %" in (described.text or "")
    assert "Noted: n000 gpu 3 −17.0 %" in (described.text or "")


def test_a_gpu_without_a_page_is_a_mark_that_leads_nowhere() -> None:
    """It is still named and can be focused."""
    own = (GpuDeviation(DrawnGpu("n1 gpu 0", "outlier"), 80.0, -0.2),)
    svg = strip_svg(StripChart("fleet", (Strip("pi", "TFLOP/s", 100, own, published=40.0),)))
    (mark,) = all_of(svg, "g", "fr-mark")

    assert (mark.get("role"), mark.get("tabindex"), mark.get("href")) == ("img", "0", None)
