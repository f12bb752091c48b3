"""The roofline of a device: median roofs over those of every gpu, published peaks, and what workloads reach."""

from dataclasses import dataclass

from fleetridge.quantities import quantity, signed_percent, significant
from fleetridge_server.web.charts import roofline_curves as curves
from fleetridge_server.web.charts import svg
from fleetridge_server.web.charts.axes import LINE, fitted, pushed_apart, rows_without_overlap, squeezed, width_of
from fleetridge_server.web.charts.roofline_curves import (
    FleetRoof,
    GpuRoof,
    Plane,
    PublishedPi,
    RooflineChart,
    WorkloadMark,
    plane_of,
)
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.symbols import Spot, circle, cross, diamond, mark, mark_style

_NARROWEST_LIST, _WIDEST_LIST = 200.0, 430.0
_LEADER = 16.0
# A label that had to move further no longer points at its ridge.
_FARTHEST = 12.0
_SAMPLE = 24.0
_PLOT_HEIGHT = {Layout.WIDE: 350.0, Layout.NARROW: 270.0}
_LEFT = {Layout.WIDE: 54.0, Layout.NARROW: 44.0}
_TICKS_APART = {Layout.WIDE: 34.0, Layout.NARROW: 34.0}


@dataclass(frozen=True, slots=True)
class _ListRow:
    """A line of the list beside the plot: a sample, what it is, and where its roof ends; for a gpu, in which roof."""

    y: float
    sample: str
    name: str
    says: str
    hue: str
    gpu: GpuRoof | None = None
    roof: str = ""


def roofline_svg(chart: RooflineChart, layout: Layout = Layout.WIDE) -> str:
    """
    Roofs over intensity, both axes logarithmic.

    Medians are solid (burst) or dashed (sustained), published peaks dotted, every gpu faint; above
    `charts.roofline_curves.MOST_LINES` gpus their quantiles are bands. A list names every roof with its figures.
    """
    if not chart.roofs:
        return svg.empty(chart.title, "No roofs were measured yet.", layout)
    rows_of = _list_width(chart) if layout is Layout.WIDE else 0.0
    top = svg.top_of(chart.title, layout) + LINE
    lane_top = top + _PLOT_HEIGHT[layout]
    plane = plane_of(chart, _LEFT[layout], layout.units - rows_of - 10, top, lane_top)
    lane, axis_y = _workloads(chart, plane, lane_top)
    rows = _rows(chart, plane)
    listed, bottom = _listed(rows, plane, layout, axis_y + 2.1 * LINE)
    parts = (
        _grid(plane, axis_y, layout),
        curves.peers(chart, plane),
        curves.published(chart, plane),
        curves.medians(chart, plane),
        curves.slow(chart, plane),
        _slope_words(chart, plane),
        _points(chart, plane),
        lane,
        _ridges(chart, plane),
        listed,
    )
    return svg.framed(chart.title, _description(chart), layout, max(bottom, axis_y + 2.1 * LINE), parts)


def _list_width(chart: RooflineChart) -> float:
    widest = max(width_of(f"{name} {says}") for name, says in _texts(chart))
    return min(max(widest + _LEADER + _SAMPLE + 12, _NARROWEST_LIST), _WIDEST_LIST)


def _texts(chart: RooflineChart) -> list[tuple[str, str]]:
    texts = [_of_roof(roof) for roof in chart.roofs] + [_of_peak(peak) for peak in chart.published_pi]
    return texts + [_of_gpu(*found) for found in curves.slowest(chart)]


def _of_roof(roof: FleetRoof) -> tuple[str, str]:
    regime = "" if roof.regime == "unspecified" else f" {roof.regime}"
    ridge = "" if roof.ridge is None else f", I* {significant(roof.ridge)}"
    return f"{roof.dtype}{regime}", f"{quantity(roof.pi_tflops, 'TFLOP/s')}{ridge}"


def _of_peak(peak: PublishedPi) -> tuple[str, str]:
    return f"{peak.dtype} published", quantity(peak.pi_tflops, "TFLOP/s")


def _of_gpu(roof: FleetRoof, own: GpuRoof) -> tuple[str, str]:
    return own.gpu.label, f"pi {signed_percent(own.pi_tflops / roof.pi_tflops - 1)}{_beta_change(roof, own)}"


def _beta_change(roof: FleetRoof, own: GpuRoof) -> str:
    if roof.beta_gbps is None or own.beta_gbps is None:
        return ""
    return f", beta {signed_percent(own.beta_gbps / roof.beta_gbps - 1)}"


def _rows(chart: RooflineChart, plane: Plane) -> list[_ListRow]:
    rows = [
        _ListRow(
            plane.y.at(roof.pi_tflops), f"fr-line fr-{roof.regime}", *_of_roof(roof), hue=curves.hue(chart, roof.dtype)
        )
        for roof in chart.roofs
    ]
    rows += [
        _ListRow(plane.y.at(peak.pi_tflops), "fr-line fr-dashed", *_of_peak(peak), hue=curves.hue(chart, peak.dtype))
        for peak in chart.published_pi
    ]
    rows += [
        _ListRow(
            plane.y.at(own.pi_tflops),
            curves.kind_of(own),
            *_of_gpu(roof, own),
            hue="fr-ink",
            gpu=own,
            roof=_of_roof(roof)[0],
        )
        for roof, own in curves.slowest(chart)
    ]
    return sorted(rows, key=lambda row: (row.y, row.name))


def _listed(rows: list[_ListRow], plane: Plane, layout: Layout, below: float) -> tuple[str, float]:
    """The list, and where it ends: beside the plot with lines to the roofs, or below it."""
    if layout is Layout.NARROW:
        places = [below + LINE * (index + 0.5) for index in range(len(rows))]
        return "".join(_line(row, 6, y, layout) for row, y in zip(rows, places, strict=True)), below + LINE * (
            len(rows) + 0.5
        )
    places = pushed_apart([row.y for row in rows], LINE, plane.top, plane.bottom - 4)
    x = plane.right + _LEADER
    leaders = [f"M{c(plane.right)} {c(row.y)}L{c(x)} {c(y)}" for row, y in zip(rows, places, strict=True)]
    lines = (_line(row, x + 3, y, layout) for row, y in zip(rows, places, strict=True))
    return svg.path("fr-leader", leaders) + "".join(lines), places[-1] + LINE


def _line(row: _ListRow, x: float, y: float, layout: Layout) -> str:
    """A sample of the line and its words, cut where the chart ends."""
    sample = svg.group(row.hue, svg.path(row.sample, [f"M{c(x)} {c(y)}h{c(_SAMPLE - 4)}"]))
    start = x + _SAMPLE + 2
    name = squeezed(row.name, layout.units - start - width_of(row.says) - 10)
    label = svg.element(
        "text",
        {"x": start, "y": y + 4},
        svg.element("tspan", {"class": "fr-strong"}, svg.escaped(name)),
        svg.escaped(f" {row.says}"),
    )
    if row.gpu is None:
        return sample + label
    glyph = mark_style(row.gpu.gpu.state).drawn(x + (_SAMPLE - 4) / 2, y, 4)
    return mark(row.gpu.gpu, f"{row.roof} {row.says}".strip(), sample + glyph + label, Spot(x, y, layout.units))


def _grid(plane: Plane, axis_y: float, layout: Layout) -> str:
    apart = _TICKS_APART[layout]
    xs, ys = plane.x.ticks(apart), plane.y.ticks(apart * 0.7)
    lines = [f"M{c(plane.x.at(x))} {c(plane.top)}V{c(axis_y)}" for x in xs]
    lines += [f"M{c(plane.left)} {c(plane.y.at(y))}H{c(plane.right)}" for y in ys]
    return (
        svg.path("fr-grid", lines)
        + svg.path("fr-axis", [f"M{c(plane.left)} {c(axis_y)}H{c(plane.right)}"])
        + "".join(svg.words(f"{x:g}", plane.x.at(x), axis_y + 15, "fr-tick", "middle") for x in xs)
        + "".join(svg.words(f"{y:g}", plane.left - 5, plane.y.at(y) + 4, "fr-tick", "end") for y in ys)
        + svg.words("TFLOP/s", 8, plane.top - 6, "fr-tick")
        + svg.words("intensity, FLOP/byte", plane.right, axis_y + 31, "fr-tick", "end")
    )


def _slope_words(chart: RooflineChart, plane: Plane) -> str:
    """What the slopes are, written along them from their lower ends."""
    slopes = curves.slopes(chart)
    said = [f"{name}{quantity(beta, 'GB/s')}" for name, beta in slopes]
    if not said:
        return ""
    highest = max(beta for _, beta in slopes)
    rise = plane.y.units_per_decade / plane.x.units_per_decade
    x, y = plane.foot(highest)
    return curves.along_slope(said, x, y, rise)


def _workloads(chart: RooflineChart, plane: Plane, lane_top: float) -> tuple[str, float]:
    """Verticals from what each workload reaches down to its words, and where the axis goes below them."""
    ordered = sorted(chart.workloads, key=lambda own: own.intensity)
    texts = [_reach_words(own, plane.right - plane.left) for own in ordered]
    xs = [plane.x.at(own.intensity) for own in ordered]
    starts = [_start(x, width_of(text), plane) for x, text in zip(xs, texts, strict=True)]
    spans = [(start - 6, start + width_of(text) + 6) for start, text in zip(starts, texts, strict=True)]
    rows = [row or 0 for row in rows_without_overlap(spans, max(1, len(ordered)))]
    axis_y = lane_top + (LINE * (max(rows, default=-1) + 1) + 4 if ordered else 0)
    verticals = [
        f"M{c(x)} {c(plane.y.at(own.attainable_tflops))}V{c(axis_y)}" for x, own in zip(xs, ordered, strict=True)
    ]
    dots = [circle("fr-reach", x, plane.y.at(own.attainable_tflops), 4.5) for x, own in zip(xs, ordered, strict=True)]
    labels = [
        svg.words(text, start, lane_top + LINE * (row + 0.8), "fr-halo")
        for text, start, row in zip(texts, starts, rows, strict=True)
    ]
    return svg.path("fr-workload", verticals) + "".join(dots) + "".join(labels), axis_y


def _reach_words(own: WorkloadMark, room: float) -> str:
    reached = quantity(own.attainable_tflops, "TFLOP/s")
    return f"{fitted(own.name, room - width_of(f': {reached}'))}: {reached}"


def _start(x: float, width: float, plane: Plane) -> float:
    """Where words begin: right of their vertical, else left of it, else where they just fit."""
    if x + 5 + width <= plane.right:
        return x + 5
    return max(plane.left, x - 5 - width)


def _ridges(chart: RooflineChart, plane: Plane) -> str:
    """Ridge points, and their intensities where there is room to the left of them; the list has them all."""
    known = [(roof, roof.ridge) for roof in chart.roofs if roof.ridge is not None]
    ys = [plane.y.at(roof.pi_tflops) for roof, _ in known]
    places = pushed_apart(ys, LINE - 3, plane.top + 4, plane.bottom)
    marks = [
        svg.group(curves.hue(chart, roof.dtype), diamond("fr-ridge", plane.x.at(ridge), y, 5))
        for (roof, ridge), y in zip(known, ys, strict=True)
    ]
    labels = [
        svg.words(
            f"I* {significant(ridge)}",
            plane.x.at(ridge) - 10 - (place - y if place > y else 0),
            place + 1,
            "fr-halo",
            "end",
        )
        for (_, ridge), y, place in zip(known, ys, places, strict=True)
        if abs(place - y) <= _FARTHEST
    ]
    return "".join(marks) + "".join(labels)


def _points(chart: RooflineChart, plane: Plane) -> str:
    return "".join(
        svg.titled(
            f"{own.label}: {quantity(own.tflops, 'TFLOP/s')} at {quantity(own.intensity, 'FLOP/byte')}",
            cross("fr-point", plane.x.at(own.intensity), plane.y.at(own.tflops), 3),
        )
        for own in chart.points
    )


def _description(chart: RooflineChart) -> str:
    roofs = "; ".join(" ".join(_of_roof(roof)) for roof in chart.roofs)
    memory = ", ".join(f"{name}{quantity(beta, 'GB/s')}" for name, beta in curves.slopes(chart))
    slow = ", ".join(" ".join(_of_gpu(*found)) for found in curves.slowest(chart))
    reach = "; ".join(
        f"{own.name} reaches {quantity(own.attainable_tflops, 'TFLOP/s')}, {own.bound}-bound" for own in chart.workloads
    )
    parts = (f"Median compute roofs: {roofs}", memory, f"Slowest gpus: {slow}" if slow else "", reach)
    return ". ".join(part for part in parts if part) + "."
