"""The roofline as SVG."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.web.charts.roofline import roofline_svg
from fleetridge_server.web.charts.roofline_curves import FleetRoof, GpuRoof, MeasuredPoint, PublishedPi, RooflineChart
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.symbols import DrawnGpu
from support.drawn import all_of, parsed, roofline_chart, texts, titles

rates = st.floats(1e-3, 1e6)
layouts = st.sampled_from(list(Layout))


def test_every_median_roof_is_named_with_its_figures() -> None:
    """Three digits, unit and ridge."""
    said = texts(roofline_svg(roofline_chart(64)))

    assert "bfloat16 burst 781 TFLOP/s, I* 175" in said
    assert "bfloat16 published 989 TFLOP/s" in said
    assert "beta 4471 GB/s" in said
    assert "decode GEMV, batch 1: 4.47 TFLOP/s" in said


def test_burst_sustained_and_published_differ_in_more_than_colour() -> None:
    """A line of each has a class of its own, which the sheet gives dashes of its own."""
    svg = roofline_svg(roofline_chart(64))

    assert all(all_of(svg, "path", kind) for kind in ("fr-burst", "fr-sustained", "fr-dashed"))


def test_a_slow_gpu_is_named_and_links_to_its_page() -> None:
    """It is what somebody looks for."""
    links = all_of(roofline_svg(roofline_chart(64)), "a", "fr-mark")

    assert [link.get("href") for link in links] == ["/ui/gpus/GPU-00000003"]
    assert "n000 gpu 3" in "".join(links[0].itertext())


def test_gpus_are_faint_lines_until_they_are_too_many() -> None:
    """Then their quantiles are bands, and the chart grows no more."""
    few, many = roofline_svg(roofline_chart(200)), roofline_svg(roofline_chart(201))

    assert (len(all_of(few, "path", "fr-faint")), len(all_of(few, "path", "fr-band"))) == (3, 0)
    assert (len(all_of(many, "path", "fr-faint")), len(all_of(many, "path", "fr-band"))) == (0, 6)
    assert len(roofline_svg(roofline_chart(2000))) < 1.02 * len(many)


def test_a_higher_roof_is_drawn_higher_and_a_larger_intensity_further_right() -> None:
    """As on any roofline."""
    flat = [
        [float(number) for number in re.findall(r"-?[\d.]+", line.get("d", ""))]
        for kind in ("fr-burst", "fr-sustained")
        for line in all_of(roofline_svg(roofline_chart(64)), "path", kind)
        if "H" in line.get("d", "")
    ]
    bfloat16, float8, sustained = flat

    assert float8[1] < bfloat16[1] < sustained[1]
    assert sustained[0] < bfloat16[0] < float8[0]


@given(
    st.lists(st.tuples(rates, st.none() | rates, st.lists(rates, max_size=3)), min_size=1, max_size=5),
    st.none() | rates,
    layouts,
)
def test_whatever_is_positive_can_be_drawn(
    roofs: list[tuple[float, float | None, list[float]]], published: float | None, layout: Layout
) -> None:
    """Nothing stands outside of the chart, and nothing is not a number."""
    chart = RooflineChart(
        "any",
        tuple(
            FleetRoof(
                f"dtype {number}",
                "burst",
                pi,
                beta,
                tuple(GpuRoof(DrawnGpu(f"gpu {index}"), own, beta) for index, own in enumerate(gpus)),
            )
            for number, (pi, beta, gpus) in enumerate(roofs)
        ),
        () if published is None else (PublishedPi("dtype 0", published),),
        published,
        points=() if published is None else (MeasuredPoint("o_proj", published, 1.0),),
    )
    svg = roofline_svg(chart, layout)
    height = float(parsed(svg).get("viewBox", "").split()[3])

    assert "nan" not in svg
    assert "inf" not in svg.replace("infl", "")
    assert all(0 <= float(own.get("y", "")) <= height for own in all_of(svg, "text") if own.get("y", "")[0] != "-")


def test_no_roofs_are_said_in_words() -> None:
    """An empty chart explains itself."""
    assert "No roofs were measured yet." in texts(roofline_svg(RooflineChart("H200", ())))


def test_one_gpu_has_its_roofs_and_the_published_ones() -> None:
    """There are no peers to be compared with."""
    svg = roofline_svg(roofline_chart(1))

    assert all_of(svg, "path", "fr-dashed")
    assert not all_of(svg, "a", "fr-mark")


def test_a_highlighted_gpu_is_drawn_whether_it_is_slow_or_not() -> None:
    """The page of a gpu shows its own roofs over those of its peers."""
    chart = roofline_chart(8)
    own = tuple(
        replace(roof, gpu=replace(roof.gpu, highlighted=number == 0)) for number, roof in enumerate(chart.roofs[0].gpus)
    )
    svg = roofline_svg(replace(chart, roofs=(replace(chart.roofs[0], gpus=own),)))

    assert any(title.startswith("n000 gpu 0") for title in titles(svg))


@pytest.mark.parametrize("layout", Layout)
def test_the_same_chart_is_the_same_text(layout: Layout) -> None:
    """So that a cache and a test can rely on it."""
    assert roofline_svg(roofline_chart(64), layout) == roofline_svg(roofline_chart(64), layout)


def test_ridges_that_crowd_keep_their_marks_and_lose_their_labels() -> None:
    """A label beside the wrong ridge is worse than none; the list has every figure."""
    roofs = tuple(FleetRoof(f"dtype {number}", "burst", 700.0 + number, 4471.0) for number in range(8))
    svg = roofline_svg(RooflineChart("crowd", roofs))

    assert len(all_of(svg, "path", "fr-ridge")) == 8
    assert len([text for text in texts(svg) if text.startswith("I* ")]) < 4
    assert "dtype 7 burst 707 TFLOP/s, I* 158" in texts(svg)
