"""Deviation strips: every gpu of a device by its distance from the median, on a linear axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge.quantities import deviation, quantity, signed_percent
from fleetridge_server.engine.wording import counted
from fleetridge_server.web.charts import svg
from fleetridge_server.web.charts.axes import LINE, Axis, fitted, percent_tick, squeezed, width_of
from fleetridge_server.web.charts.strip_marks import (
    Lane,
    Strip,
    StripChart,
    crowd,
    is_crowd,
    look_on,
    named,
    standing_out,
)
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.symbols import MarkStyle, circle, is_noted

# Identical gpus of real fleets differ by 8 % on average, up to 22 %, and outliers run at two thirds of the median
# (Sinha et al., "Not All GPUs Are Created Equal", SC 2022, arXiv:2208.11035). An axis that always holds this much keeps
# charts comparable.
_USUAL = (-0.35, 0.05)
_TICK = 0.05
# Beyond this a mark waits at the edge: one absurd value must not press all others together.
_HIGHEST = 0.5

_SIDE = 22.0
_LANE = 44.0
_AIR = 10.0
_MOST_TICKS = {Layout.WIDE: 10, Layout.NARROW: 5}


@dataclass(frozen=True, slots=True)
class _DrawnStrip:
    """A strip as markup, from `top` to `bottom` of its lane, and where the next one may begin."""

    head: str
    marks: str
    top: float
    bottom: float
    end: float


def strip_svg(chart: StripChart, layout: Layout = Layout.WIDE) -> str:
    """
    Strips of deviations from the median, in per cent.

    A dot for each gpu; of a crowd (`web.charts.strip_marks.is_crowd`) bars count them, and only those that stand out
    are dots.
    """
    strips = [strip for strip in chart.strips if strip.count]
    if not strips:
        return svg.empty(chart.title, "No gpu was measured yet.", layout)
    axis = _axis(strips, layout)
    drawn: list[_DrawnStrip] = []
    for strip in strips:
        drawn.append(_strip(strip, axis, drawn[-1].end if drawn else svg.top_of(chart.title, layout), layout))
    end = drawn[-1].end
    key, bottom = svg.legend(_keys(strips), end + 2.2 * LINE, layout)
    parts = [_grid(axis, drawn, end, layout), *(own.head for own in drawn), *(own.marks for own in drawn), key]
    return svg.framed(chart.title, " ".join(_sentence(strip) for strip in strips), layout, bottom, parts)


def _axis(strips: Sequence[Strip], layout: Layout) -> Axis:
    found = [end for strip in strips for end in strip.reach]
    low = min(_USUAL[0], math.floor(min(found) / _TICK) * _TICK)
    high = min(max(_USUAL[1], math.ceil(max(found) / _TICK) * _TICK), _HIGHEST)
    return Axis(max(low, -1.0), high, _SIDE, layout.units - _SIDE)


def _strip(strip: Strip, axis: Axis, top: float, layout: Layout) -> _DrawnStrip:
    lines = _head_lines(strip, layout)
    lane = Lane(axis, top + LINE * len(lines) + 6, _LANE, layout)
    found = standing_out(strip)
    labels, end = named(found, lane)
    head = "".join(_head(line, top + LINE * (number + 0.8)) for number, line in enumerate(lines))
    marks = _marks_of_limits(strip, lane) + crowd(strip, found, lane) + labels
    return _DrawnStrip(head, marks, lane.top, lane.bottom, end + _AIR)


def _head(line: tuple[str, str], y: float) -> str:
    strong, aside = line
    spans = [svg.element("tspan", {"class": "fr-strong"}, svg.escaped(strong))] if strong else []
    spans.append(svg.element("tspan", {"class": "fr-aside"}, svg.escaped(f"  {aside}" if strong else aside)))
    return svg.element("text", {"x": 8, "y": y}, *spans)


def _head_lines(strip: Strip, layout: Layout) -> list[tuple[str, str]]:
    """Name and figures, in as many lines as they need."""
    room = layout.units - 16
    figures = _figures(strip)
    whole = " · ".join(figures)
    if width_of(f"{strip.label}  {whole}") <= room:
        return [(strip.label, whole)]
    lines = [(squeezed(strip.label, room - width_of(figures[0]) - 14), figures[0])]
    rest = ""
    for figure in figures[1:]:
        joined = f"{rest} · {figure}" if rest else figure
        if rest and width_of(joined) > room:
            lines.append(("", rest))
            joined = figure
        rest = joined
    return [*lines, ("", fitted(rest, room))] if rest else lines


def _figures(strip: Strip) -> list[str]:
    count = strip.count
    figures = [f"median {quantity(strip.median, strip.unit)}", counted(count, "gpu")]
    if strip.limit is not None:
        figures.append(f"limit {signed_percent(-strip.limit)}")
    if strip.published is not None:
        above = signed_percent(deviation(strip.published, strip.median))
        figures.append(f"published {quantity(strip.published, strip.unit)} ({above})")
    return [*figures, strip.note] if strip.note else figures


def _marks_of_limits(strip: Strip, lane: Lane) -> str:
    """Median, limit with what lies beyond it, and published figure."""
    axis, vertical = lane.axis, f"V{c(lane.bottom)}"
    parts = []
    if strip.limit is not None:
        x = axis.at(-strip.limit)
        beyond = svg.rectangle("fr-beyond", axis.start - 8, lane.top, x - axis.start + 8, lane.bottom - lane.top)
        parts += [beyond, svg.path("fr-limit", [f"M{c(x)} {c(lane.top)}{vertical}"])]
    parts.append(svg.path("fr-median", [f"M{c(axis.at(0))} {c(lane.top - 4)}V{c(lane.bottom + 4)}"]))
    if strip.published is not None:
        parts.append(_published(deviation(strip.published, strip.median), lane))
    return "".join(parts)


def _published(above: float, lane: Lane) -> str:
    """A tick where it lies on the axis, else an arrow at the edge behind which it lies."""
    axis, middle = lane.axis, (lane.top + lane.bottom) / 2
    if axis.low <= above <= axis.high:
        return svg.path("fr-published", [f"M{c(axis.at(above))} {c(lane.top)}V{c(lane.bottom)}"])
    sign, edge = (1, axis.end) if above > axis.high else (-1, axis.start)
    return svg.path(
        "fr-arrow",
        [f"M{c(edge + sign * 6)} {c(middle - 5)}l{c(sign * 8)} 5l{c(-sign * 8)} 5"],
    )


def _grid(axis: Axis, drawn: Sequence[_DrawnStrip], end: float, layout: Layout) -> str:
    ticks = axis.ticks(_MOST_TICKS[layout])
    lines = [f"M{c(axis.at(tick))} {c(own.top)}V{c(own.bottom)}" for own in drawn for tick in ticks]
    base = [f"M{c(axis.start - 8)} {c(own.bottom)}H{c(axis.end + 8)}" for own in drawn]
    labels = [
        svg.words(percent_tick(tick, _TICK / 100), axis.at(tick), end + 12, "fr-tick", "middle") for tick in ticks
    ]
    name = svg.words("deviation from the median", axis.start - 14, end + 28, "fr-tick")
    return svg.path("fr-grid", lines) + svg.path("fr-axis", base) + "".join(labels) + name


def _keys(strips: Sequence[Strip]) -> list[svg.LegendKey]:
    drawn = ((own, strip) for strip in strips for own in (standing_out(strip) if is_crowd(strip) else strip.gpus))
    looks = {look.word: look for look in (look_on(*found) for found in drawn)}
    keys = [svg.LegendKey(_dot_sample(look), word) for word, look in sorted(looks.items())]
    if any(own.gpu.highlighted for strip in strips for own in strip.gpus):
        keys.append(svg.LegendKey(lambda x, y: circle("fr-own", x, y, 6), "this gpu"))
    if any(is_crowd(strip) for strip in strips):
        keys.append(svg.LegendKey(svg.bar, "gpus in a bar, by number"))
    keys.append(svg.LegendKey(svg.upright("fr-median"), "median"))
    if any(strip.limit is not None for strip in strips):
        keys.append(svg.LegendKey(svg.upright("fr-limit"), "limit"))
    if any(strip.published is not None for strip in strips):
        keys.append(svg.LegendKey(svg.upright("fr-published"), "published (▸ off the axis)"))
    return keys


def _dot_sample(look: MarkStyle) -> svg.Sample:
    return lambda x, y: look.drawn(x, y, 4)


def _sentence(strip: Strip) -> str:
    low, high = strip.reach
    noted = sorted((own for own in strip.gpus if is_noted(own.gpu)), key=lambda own: own.deviation)
    said = f"{strip.label}: {', '.join(_figures(strip))}, from {signed_percent(low)} to {signed_percent(high)}."
    worst = ", ".join(f"{own.gpu.label} {signed_percent(own.deviation)}" for own in noted[:5])
    return f"{said} Noted: {worst}." if worst else said
