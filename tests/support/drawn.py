"""Charts to draw, and what to look for in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from xml.etree import ElementTree as ET

from fleetridge_server.engine.gpu_state import State
from fleetridge_server.engine.statistics import Distribution, distribution, median, percentiles
from fleetridge_server.web.charts.comparison import ComparedGroup, ComparedRoof, ComparisonChart, PairedChange
from fleetridge_server.web.charts.distribution import of_quantiles, scaled
from fleetridge_server.web.charts.heatmap_layout import HeatCell, HeatCluster, HeatMap, HeatNode, HeatRack
from fleetridge_server.web.charts.history_panel import HistoryChart, HistoryPanel, HistoryPoint
from fleetridge_server.web.charts.roofline_curves import FleetRoof, GpuRoof, PublishedPi, RooflineChart, WorkloadMark
from fleetridge_server.web.charts.strip_marks import GpuDeviation, Strip, StripChart
from fleetridge_server.web.charts.symbols import DrawnGpu

SVG = "{http://www.w3.org/2000/svg}"
START = datetime(2026, 3, 1, 6, tzinfo=timezone.utc)
# One gpu of the fleets below is slow.
SLOW = 3
LOSS = 0.17
# Multiples of it spread evenly over the unit interval.
_GOLDEN = 0.618034


def parsed(svg: str) -> ET.Element:
    """A chart as a tree; fails where it is no XML."""
    return ET.fromstring(svg)  # noqa: S314 # our own output


def all_of(svg: str, tag: str, kind: str | None = None) -> list[ET.Element]:
    """Elements of a tag, of one class where that is given."""
    found = parsed(svg).iter(f"{SVG}{tag}")
    return [own for own in found if kind is None or kind in own.get("class", "").split()]


def titles(svg: str) -> list[str]:
    """What hovering shows anywhere on a chart."""
    return [own.text or "" for own in all_of(svg, "title")]


def texts(svg: str) -> list[str]:
    """What is written on a chart."""
    return ["".join(own.itertext()) for own in all_of(svg, "text")]


def gpu(number: int, state: State | None = "ok", *, highlighted: bool = False) -> DrawnGpu:
    """Gpu of nodes with eight."""
    return DrawnGpu(
        f"n{number // 8:03d} gpu {number % 8}", state, f"/ui/gpus/GPU-{number:08x}", highlighted=highlighted
    )


def fleet(count: int) -> list[tuple[DrawnGpu, float]]:
    """Gpus with their values beside 1; from five on the fourth is slow."""
    # Noise in pairs of opposite sign, all different: the median is 1, and no text is smaller than with real values.
    values = [1 + (-1) ** number * 0.008 * (number // 2 * _GOLDEN % 1) for number in range(count)]
    states: list[State] = ["ok"] * count
    if count > SLOW + 1:
        values[SLOW], states[SLOW] = 1 - LOSS, "outlier"
    return [(gpu(number, state), value) for number, (value, state) in enumerate(zip(values, states, strict=True))]


def roofline_chart(count: int) -> RooflineChart:
    """Two dtypes in two regimes, with all that a chart may have."""
    roofs = []
    for dtype, regime, pi in (
        ("bfloat16", "burst", 781.0),
        ("bfloat16", "sustained", 684.0),
        ("float8_e4m3fn", "burst", 1395.0),
    ):
        own = tuple(GpuRoof(who, pi * value, 4471.0) for who, value in fleet(count))
        pis = distribution(roof.pi_tflops for roof in own)
        betas = distribution(4471.0 for _ in own)
        roofs.append(FleetRoof(dtype, regime, pis.median, 4471.0, own, pi_spread=pis, beta_spread=betas))
    return RooflineChart(
        "H200: roofline",
        tuple(roofs),
        (PublishedPi("bfloat16", 989.0), PublishedPi("float8_e4m3fn", 1979.0)),
        4800.0,
        (WorkloadMark("decode GEMV, batch 1", 1.0, 4.471, "memory"), WorkloadMark("prefill", 1024.0, 781.0, "compute")),
    )


def strip_of(count: int, label: str = "pi bfloat16 burst") -> Strip:
    """One figure of a fleet."""
    own = [(who, 781 * value) for who, value in fleet(count)]
    middle = median(value for _, value in own)
    deviations = tuple(GpuDeviation(who, value, value / middle - 1) for who, value in own)
    return Strip(label, "TFLOP/s", middle, deviations, limit=0.03, published=989.0)


def large_strip(count: int) -> Strip:
    """The same of a fleet of which only the slow gpu is known by itself."""
    whole = strip_of(count)
    values = [own.value for own in whole.gpus]
    crowd = scaled(of_quantiles(count, percentiles(values)), whole.median)
    return replace(whole, gpus=(whole.gpus[SLOW],), crowd=crowd)


def strip_chart(count: int) -> StripChart:
    """Four figures of a fleet."""
    labels = ("pi bfloat16 burst", "pi bfloat16 sustained", "beta read", "I* bfloat16 burst")
    return StripChart("H200: deviation", tuple(strip_of(count, label) for label in labels))


def heat_map(count: int, *, racks: bool = True) -> HeatMap:
    """Nodes with eight gpus, racks with sixteen nodes."""
    cells = [HeatCell(who, value - 1) for who, value in fleet(count)]
    nodes = [
        HeatNode(f"n{first // 8:03d}", tuple(cells[first : first + 8]), f"/ui/nodes/n{first // 8:03d}")
        for first in range(0, count, 8)
    ]
    racked = [HeatRack(f"r{first // 16:02d}", tuple(nodes[first : first + 16])) for first in range(0, len(nodes), 16)]
    return HeatMap(
        "Fleet", (HeatCluster("atlas", tuple(racked) if racks else (HeatRack(None, tuple(nodes)),)),) if nodes else ()
    )


def history_chart(*days: float, value: float = 781.0) -> HistoryChart:
    """Runs so many days after the start."""
    points = tuple(HistoryPoint(START + timedelta(days=day), value) for day in days)
    return HistoryChart("history", (HistoryPanel("pi bfloat16 burst", "TFLOP/s", points),))


def comparison_chart(*drivers: str) -> ComparisonChart:
    """Gpus that met a change of driver, and a group for each driver, each 2 % slower than the one before."""
    groups = tuple(
        ComparedGroup(
            driver, _around(781 * (1 - 0.02 * number)), *((-0.02 * number, -0.03 * number, -0.01) if number else ())
        )
        for number, driver in enumerate(drivers)
    )
    change = PairedChange(f"{drivers[0]} → {drivers[1]}", 8, -0.021, -0.025, -0.017)
    roof = ComparedRoof("pi bfloat16 burst", "TFLOP/s", 781.0, (change,), groups)
    return ComparisonChart("H200: what a driver does", (roof, replace(roof, label="beta read", unit="GB/s", paired=())))


def _around(middle: float) -> Distribution:
    return distribution(middle * (1 + 0.002 * step) for step in range(-4, 5))
