"""The map of the fleet."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.gpu_state import STATES, State
from fleetridge_server.web.charts.heatmap import heatmap_svg
from fleetridge_server.web.charts.heatmap_layout import HeatCell, HeatCluster, HeatMap, HeatNode, HeatRack
from fleetridge_server.web.charts.svg import Layout
from support.drawn import all_of, gpu, heat_map, parsed, texts, titles


def cells_drawn(svg: str) -> int:
    """Cells of all looks, the samples of the key left out."""
    plain = [own for tag in ("a", "g") for link in all_of(svg, tag) for own in link.findall("{*}path")]
    looks = [own for own in plain if re.fullmatch(r"fr-(h\d|hollow)", own.get("class", ""))]
    return sum(own.get("d", "").count("z") for own in looks) + len(all_of(svg, "rect", "fr-framed"))


def one_node(*cells: HeatCell) -> HeatMap:
    """A map with a single node."""
    return HeatMap("Fleet", (HeatCluster("atlas", (HeatRack("r1", (HeatNode("n1", cells, "/ui/nodes/n1"),)),)),))


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("count", [1, 8, 64, 2000])
@pytest.mark.parametrize("racks", [True, False])
def test_every_gpu_has_a_cell(count: int, layout: Layout, *, racks: bool) -> None:
    """Whatever the size of the fleet, of the chart, and whether nodes name their racks."""
    assert cells_drawn(heatmap_svg(heat_map(count, racks=racks), layout)) == count


@given(
    st.lists(st.tuples(st.sampled_from([None, *STATES]), st.none() | st.floats(-1, 2)), min_size=1, max_size=60),
    st.sampled_from(list(Layout)),
)
def test_any_state_and_deviation_can_be_drawn(found: list[tuple[State | None, float | None]], layout: Layout) -> None:
    """A node with many slices takes several rows."""
    cells = [HeatCell(gpu(number, state), value) for number, (state, value) in enumerate(found)]
    svg = heatmap_svg(one_node(*cells), layout)

    assert cells_drawn(svg) == len(found)
    assert "nan" not in svg


def test_a_healthy_fleet_is_nearly_blank() -> None:
    """Noise has no colour."""
    svg = heatmap_svg(one_node(*(HeatCell(gpu(number), -0.005) for number in range(8))))
    links = all_of(svg, "a")

    assert [path.get("class") for link in links for path in link.findall("{*}path")] == ["fr-h0"]


def test_a_cell_is_darker_the_more_its_gpu_lost() -> None:
    """Faster than the median is blank as well."""
    losses = (0.5, 0.0, -0.02, -0.04, -0.07, -0.15, -0.4)
    svg = heatmap_svg(one_node(*(HeatCell(gpu(number, "outlier"), own) for number, own in enumerate(losses))))
    shade_of = {
        (link[0].text or "").split(":")[0]: link[1].get("class", "").split()[0] for link in all_of(svg, "a", "fr-mark")
    }

    assert [shade_of[gpu(number).label] for number in range(7)] == [
        "fr-h0",
        "fr-h0",
        "fr-h1",
        "fr-h2",
        "fr-h3",
        "fr-h4",
        "fr-h5",
    ]


def test_an_accused_gpu_is_framed_with_a_sign_and_a_link() -> None:
    """Bold, with a shape, and named for those who listen."""
    (mark,) = all_of(heatmap_svg(heat_map(64)), "a", "fr-mark")

    assert mark.get("href") == "/ui/gpus/GPU-00000003"
    assert mark.get("tabindex") == "0"
    assert (mark[0].text or "").startswith("n000 gpu 3: −17.0 %, outlier")
    assert [own.get("class") for own in mark[1:3]] == ["fr-h4 fr-framed", "fr-sign"]


def test_stale_gpus_are_hatched_and_missing_ones_outlined() -> None:
    """What is not known has no colour."""
    svg = heatmap_svg(one_node(HeatCell(gpu(0, "stale"), -0.3), HeatCell(gpu(1, "missing"), None)))
    (node,) = [link for link in all_of(svg, "a") if link.get("class") is None]

    assert [own.get("class") for own in node.findall("{*}path")] == ["fr-h0", "fr-hollow", "fr-hatch"]
    assert {"stale", "missing"} <= set(texts(svg))


def test_a_node_says_what_is_in_it() -> None:
    """In a map of thousands a node has no room for its name."""
    assert "n000: 8 gpus, lowest −17.0 %, 1 outlier" in titles(heatmap_svg(heat_map(10_000)))


def test_a_fleet_that_is_accused_as_a_whole_stays_small() -> None:
    """Ten thousand marks of their own would say nothing and weigh megabytes."""
    chart = heat_map(10_000)
    slow = tuple(
        replace(
            rack,
            nodes=tuple(
                replace(node, cells=tuple(HeatCell(replace(cell.gpu, state="outlier"), -0.2) for cell in node.cells))
                for node in rack.nodes
            ),
        )
        for rack in chart.clusters[0].racks
    )
    svg = heatmap_svg(HeatMap("Fleet", (HeatCluster("atlas", slow),)))

    assert cells_drawn(svg) == 10_000
    assert len(all_of(svg, "a", "fr-mark")) < 500


def test_no_cell_lies_outside_of_the_chart() -> None:
    """Nor below it."""
    svg = heatmap_svg(heat_map(2000), Layout.NARROW)
    _, _, width, height = map(float, parsed(svg).get("viewBox", "").split())
    corners = re.findall(r"M(\d+) (\d+)h", svg)

    assert all(float(x) < width and float(y) < height for x, y in corners)


def test_no_gpus_are_said_in_words() -> None:
    """An empty fleet is no error."""
    assert "No gpu has reported yet." in texts(heatmap_svg(HeatMap("Fleet", ())))
