"""What holds of every chart: names, sizes, links, colours."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleetridge_server.engine.statistics import distribution, percentiles
from fleetridge_server.web.charts.comparison import comparison_svg
from fleetridge_server.web.charts.distribution import DistributionChart, distribution_svg, of_quantiles
from fleetridge_server.web.charts.heatmap import heatmap_svg
from fleetridge_server.web.charts.history import history_svg
from fleetridge_server.web.charts.roofline import roofline_svg
from fleetridge_server.web.charts.strip import strip_svg
from fleetridge_server.web.charts.strip_marks import StripChart
from fleetridge_server.web.charts.svg import Layout, chart_css, inline_chart, standalone_svg, style_source
from fleetridge_server.web.charts.symbols import DrawnGpu, Spot, mark
from support.drawn import (
    all_of,
    comparison_chart,
    heat_map,
    history_chart,
    large_strip,
    parsed,
    roofline_chart,
    strip_chart,
    strip_of,
)

Drawing = tuple[Callable[[Any, Layout], str], Any]

_KIB = 1024
_LEAST_OF_MARKS, _LEAST_OF_TEXT = 3.0, 4.5


def of_a_device(count: int) -> list[Drawing]:
    """Charts of a device's page."""
    values = tuple(own.value for own in strip_of(count).gpus)
    return [
        (roofline_svg, roofline_chart(count)),
        (strip_svg, strip_chart(count)),
        (distribution_svg, DistributionChart("pi", "TFLOP/s", values, 989.0)),
    ]


def of_a_large_device(count: int) -> list[Drawing]:
    """Charts of a device whose gpus are not drawn one by one."""
    strip = large_strip(count)
    assert strip.crowd is not None
    roofs = tuple(replace(roof, gpus=()) for roof in roofline_chart(count).roofs)
    values = [own.value for own in strip_of(count).gpus]
    crowd = of_quantiles(count, percentiles(values)), distribution(values)
    return [
        (roofline_svg, replace(roofline_chart(8), roofs=roofs)),
        (strip_svg, StripChart("H200: deviation", (strip,) * 4)),
        (distribution_svg, DistributionChart("pi", "TFLOP/s", (strip.gpus[0].value,), 989.0, crowd=crowd)),
    ]


DRAWINGS = [
    *of_a_device(64),
    *of_a_large_device(2000),
    (heatmap_svg, heat_map(64)),
    (history_svg, history_chart(0, 1, 2)),
    (comparison_svg, comparison_chart("550.54", "560.28", "570.1")),
]
every_drawing = pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda own: own[0].__name__)


@every_drawing
@pytest.mark.parametrize("layout", Layout)
def test_a_chart_has_a_role_a_name_and_a_description(drawing: Drawing, layout: Layout) -> None:
    """Marks inside may be focused, so that the role is that of a group: the inside of an `img` is not read."""
    draw, chart = drawing
    root = parsed(draw(chart, layout))

    assert root.get("role") == "group"
    assert root.get("aria-label") == chart.title
    assert [child.tag.split("}")[1] for child in root[:2]] == ["title", "desc"]
    assert root[1].text


@every_drawing
def test_a_chart_refers_to_nothing_outside_of_itself(drawing: Drawing) -> None:
    """No style of its own either, which a strict policy would refuse; no ids, which another chart may have."""
    draw, chart = drawing
    svg = draw(chart, Layout.WIDE)
    links = [own.get("href", "") for own in all_of(svg, "a")]

    assert all(link.startswith("/ui/") for link in links)
    assert not re.search(r"url\(|xlink|<image|<script| style=| id=| on\w+=|@import", svg)
    assert svg.count("http") == 1  # the name of the SVG namespace


@every_drawing
def test_a_hostile_title_is_text(drawing: Drawing) -> None:
    """Names of devices and nodes are in titles."""
    draw, chart = drawing
    svg = draw(replace(chart, title='</title><script>alert("x")</script>\x00'), Layout.NARROW)

    assert not all_of(svg, "script")
    assert parsed(svg).get("aria-label") == '</title><script>alert("x")</script>\\x00'


@every_drawing
@pytest.mark.parametrize("layout", Layout)
def test_no_words_are_smaller_than_can_be_read(drawing: Drawing, layout: Layout) -> None:
    """The sheet has no font below 12 units, and a chart of either layout is shown at 0.79 of its size or more."""
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", chart_css())]
    draw, chart = drawing

    assert min(sizes) >= 12
    assert float(parsed(draw(chart, layout)).get("viewBox", "").split()[2]) == layout.units


@pytest.mark.parametrize(
    ("drawings", "most_kib"),
    [
        (of_a_device(64), 20),
        (of_a_device(10_000), 150),
        (of_a_large_device(10_000), 20),
        ([(heatmap_svg, heat_map(10_000))], 150),
    ],
    ids=["a device of 64", "a device of 10,000 drawn whole", "a device of 10,000", "a fleet of 10,000"],
)
def test_a_page_of_charts_is_small(drawings: list[Drawing], most_kib: int) -> None:
    """Both layouts together, as a page sends them."""
    page = "".join(inline_chart(draw, chart) for draw, chart in drawings)

    assert len(gzip.compress(page.encode())) <= most_kib * _KIB


def test_a_file_carries_its_style() -> None:
    """And says by what a policy knows it."""
    svg = standalone_svg(strip_svg(strip_chart(8)))

    assert [own.text for own in all_of(svg, "style")] == [chart_css()]
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", style_source())


@pytest.mark.parametrize("href", ["javascript:alert(1)", "//elsewhere.example", "https://elsewhere.example", ""])
def test_a_mark_leads_nowhere_but_to_a_page_of_this_site(href: str) -> None:
    """An address with a script in it is refused, not escaped."""
    with pytest.raises(ValueError, match="give a path"):
        mark(DrawnGpu("n1 gpu 0", href=href), "781 TFLOP/s", "", Spot(0, 0, 100))


def test_every_class_that_a_chart_uses_is_in_the_sheet() -> None:
    """A mark without a style is black or invisible."""
    drawn = "".join(draw(chart, layout) for draw, chart in DRAWINGS for layout in Layout)
    used = {kind for found in re.findall(r'class="([^"]+)"', drawn) for kind in found.split()}
    # Told apart from others by what the sheet says of those.
    plain = {"fr-burst"}

    assert used - plain <= set(re.findall(r"\.(fr-[\w-]+)", chart_css()))


def colours(*, dark: bool) -> dict[str, str]:
    """Colours of a scheme by name."""
    light_sheet, dark_sheet = chart_css().split("prefers-color-scheme: dark", 1)
    return dict(re.findall(r"--(fr-[\w-]+): (#[0-9a-f]{6})", dark_sheet if dark else light_sheet))


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [own / 12.92 if own <= 0.04045 else ((own + 0.055) / 1.055) ** 2.4 for own in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_marks_stand_out_from_their_paper(*, dark: bool) -> None:
    """4.5 to 1 for text, 3 to 1 for marks (WCAG 1.4.3 and 1.4.11)."""
    scheme = colours(dark=dark)
    paper = scheme["fr-paper"]
    marks = {name for name in scheme if name.startswith("fr-hue")} | {"fr-peer", "fr-accused", "fr-axis"}

    assert all(contrast(scheme[name], paper) >= _LEAST_OF_TEXT for name in ("fr-ink", "fr-muted"))
    assert {
        name: round(contrast(scheme[name], paper), 2)
        for name in marks
        if contrast(scheme[name], paper) < _LEAST_OF_MARKS
    } == {}


@pytest.mark.parametrize("dark", [False, True])
def test_the_signs_on_a_map_stand_out_from_every_shade(*, dark: bool) -> None:
    """Ink on the first four shades, paper on the last two, as the sheet has it."""
    scheme = colours(dark=dark)
    on_shade = {shade: "fr-paper" if shade in (4, 5) else "fr-ink" for shade in range(6)}

    assert all(
        contrast(scheme[sign], scheme[f"fr-heat-{shade}"]) >= _LEAST_OF_MARKS for shade, sign in on_shade.items()
    )


def test_a_gpu_that_is_not_there_has_the_frame_of_ink_that_none_of_the_nearly_blank_has() -> None:
    """A cell without colour on paper without colour is else like its neighbours, by night above all."""
    frames = dict(re.findall(r"\.(fr-h(?:0|1|ollow)) \{ fill: [^;]+; stroke: var\(--(fr-[\w-]+)\)", chart_css()))

    assert frames == {"fr-h0": "fr-heat-edge", "fr-h1": "fr-heat-edge", "fr-hollow": "fr-ink"}


def test_both_schemes_have_every_colour() -> None:
    """None is left as it is by day."""
    assert colours(dark=False).keys() == colours(dark=True).keys()
