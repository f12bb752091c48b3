"""One gpu's past: small panels above one another on one axis of time."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from fleetridge_server.web.charts import svg
from fleetridge_server.web.charts.axes import LINE, Axis, fitted, pushed_apart, width_of
from fleetridge_server.web.charts.history_panel import (
    SIDE,
    EpochMark,
    FailedRun,
    HistoryChart,
    Times,
    VerdictMark,
    panel_height,
    panel_markup,
)
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.symbols import circle, cross, focusable, mark_style, triangle_down

_LANE = 18.0
_LEAST_SPAN = timedelta(hours=12)
_BETWEEN_NUMBERS = 17.0
_TICK_WIDTH = 74.0
_AT_EDGE = 2.0


def history_svg(chart: HistoryChart, layout: Layout = Layout.WIDE) -> str:
    """
    Panels with a point for each run; the line between them breaks where runs are missing.

    A lane on top says what the verdict was, numbered dashed verticals mark changes of settings, which are listed below,
    and a lane at the bottom has the runs that measured nothing.
    """
    moments = _moments(chart)
    if not moments:
        return svg.empty(chart.title, "No runs are known yet.", layout)
    times = _times(moments, layout)
    top = svg.top_of(chart.title, layout)
    lane, panels_top = _verdicts(chart.verdicts, times, top + _LANE, layout)
    panels, y = [], panels_top + 6
    for own in chart.panels:
        panels.append(panel_markup(own, times, y, layout))
        y += panel_height(own, layout)
    failed, axis_y = _failed(chart.failed, times, y)
    numbers = _epochs(chart.epochs, times, top, axis_y)
    listed, below = _listed(chart.epochs, axis_y + 1.9 * LINE, layout)
    key, bottom = svg.legend(_keys(chart), below, layout)
    parts = (_grid(times, panels_top, axis_y, layout), numbers, lane, *panels, failed, listed, key)
    return svg.framed(chart.title, _description(chart), layout, bottom, parts)


def _moments(chart: HistoryChart) -> list[datetime]:
    runs = [point.at for panel in chart.panels for point in panel.points] + [run.at for run in chart.failed]
    if not runs:
        return []
    return runs if chart.until is None else [*runs, chart.until]


def _times(moments: Sequence[datetime], layout: Layout) -> Times:
    first, last = min(moments), max(moments)
    lacking = max(timedelta(), _LEAST_SPAN - (last - first)) / 2
    # At the end of the calendar there is no later moment.
    first, last = first - lacking, last + min(lacking, datetime.max.replace(tzinfo=last.tzinfo) - last)
    return Times(first, Axis(0.0, (last - first).total_seconds(), SIDE[layout], layout.units - 14.0))


def _verdicts(marks: Sequence[VerdictMark], times: Times, top: float, layout: Layout) -> tuple[str, float]:
    """Spans with a sign and a word each, where there is room for it."""
    ordered = sorted(marks, key=lambda own: own.at)
    ends = [*(times.at(own.at) for own in ordered[1:]), times.axis.end][: len(ordered)]
    parts = [
        _span(own, max(times.at(own.at), times.axis.start), end, top, layout)
        for own, end in zip(ordered, ends, strict=True)
    ]
    if not any(parts):  # the first verdict is of this very moment
        return "", top
    return svg.words("verdict", 8, top + 12, "fr-tick") + "".join(parts), top + _LANE


def _span(own: VerdictMark, start: float, end: float, top: float, layout: Layout) -> str:
    if end - start < 1:
        return ""
    word = "not judged" if own.state is None else own.state.replace("_", " ")
    look = mark_style(own.state)
    tone = "fr-span-accused" if look.kind in ("fr-accused", "fr-suspect") else "fr-span"
    bar = svg.rectangle(tone, start, top, max(end - start - 1.5, 1), _LANE - 4)
    wide = end - start > width_of(word) + 22
    sign = look.drawn(min(start + 8, (start + end) / 2), top + 7, 3.6)
    label = svg.words(word, start + 17, top + 11, "fr-tick") if wide else ""
    says = f"{word} from {own.at:%Y-%m-%d %H:%M} UTC"
    return focusable(says, bar + sign + label, (start, top + 7), layout) if not wide else bar + sign + label


def _failed(runs: Sequence[FailedRun], times: Times, top: float) -> tuple[str, float]:
    if not runs:
        return "", top
    y = top + 8
    marks = (
        svg.titled(
            f"{run.at:%Y-%m-%d %H:%M} UTC: {run.reason.replace('_', ' ')}",
            cross("fr-hatch", times.at(run.at), y, 3.5),
        )
        for run in sorted(runs, key=lambda run: (run.at, run.reason))
    )
    return svg.words("no data", 8, y + 4, "fr-tick") + "".join(marks), top + _LANE


def _epochs(epochs: Sequence[EpochMark], times: Times, top: float, bottom: float) -> str:
    ordered = sorted(epochs, key=lambda own: (own.at, own.label))
    xs = [times.at(own.at) for own in ordered]
    places = pushed_apart(xs, _BETWEEN_NUMBERS, times.axis.start, times.axis.end)
    lines = [
        f"M{c(place)} {c(top + 8)}L{c(x)} {c(top + _LANE - 2)}V{c(bottom)}" for x, place in zip(xs, places, strict=True)
    ]
    discs = (
        circle("fr-number", place, top + 5, 7.5) + svg.words(str(number), place, top + 9, "fr-digit", "middle")
        for number, place in enumerate(places, start=1)
    )
    return svg.path("fr-epoch", lines) + "".join(discs)


def _listed(epochs: Sequence[EpochMark], top: float, layout: Layout) -> tuple[str, float]:
    ordered = sorted(epochs, key=lambda own: (own.at, own.label))
    parts = []
    for number, own in enumerate(ordered, start=1):
        y = top + LINE * number
        text = fitted(f"{own.at:%Y-%m-%d} {own.label}", layout.units - 40)
        parts += [
            circle("fr-number", 17, y - 4, 7.5),
            svg.words(str(number), 17, y, "fr-digit", "middle"),
            svg.words(text, 30, y),
        ]
    return "".join(parts), top + LINE * len(ordered) + 6


def _tick(text: str, x: float, y: float, layout: Layout) -> str:
    """A time below its line, moved so far that it stays on the chart."""
    last = layout.units - _AT_EDGE - width_of(text) / 2
    return svg.words(text, min(x, last), y, "fr-tick", "middle")


def _grid(times: Times, top: float, axis_y: float, layout: Layout) -> str:
    ticks = times.ticks(max(2, int((times.axis.end - times.axis.start) / _TICK_WIDTH)))
    lines = [f"M{c(x)} {c(top)}V{c(axis_y)}" for x, _ in ticks]
    base = svg.path("fr-axis", [f"M{c(times.axis.start)} {c(axis_y)}H{c(times.axis.end)}"])
    labels = (_tick(text, x, axis_y + 14, layout) for x, text in ticks)
    return (
        svg.path("fr-grid", lines)
        + base
        + "".join(labels)
        + svg.words(f"{times.first:%Y} UTC", 8, axis_y + 14, "fr-tick")
    )


def _keys(chart: HistoryChart) -> list[svg.LegendKey]:
    points = [point for panel in chart.panels for point in panel.points]
    keys = [svg.LegendKey(lambda x, y: circle("fr-peer", x, y, 3.2), "run")]
    if any(point.accused for point in points):
        keys.append(svg.LegendKey(lambda x, y: triangle_down("fr-accused", x, y, 4.5), "beyond the limit of its peers"))
    if any(point.note for point in points):
        keys.append(svg.LegendKey(lambda x, y: circle("fr-unsure", x, y, 3.2), "run with a remark"))
    if any(panel.band is not None for panel in chart.panels):
        keys.append(
            svg.LegendKey(
                lambda x, y: svg.path("fr-peers", [f"M{c(x - 8)} {c(y - 5)}h16v10h-16z"]), "peers now, 5 to 95 %"
            )
        )
    if chart.epochs:
        keys.append(svg.LegendKey(svg.upright("fr-epoch"), "a setting changed"))
    if chart.failed:
        keys.append(svg.LegendKey(lambda x, y: cross("fr-hatch", x, y, 3.5), "measured nothing"))
    return keys


def _description(chart: HistoryChart) -> str:
    panels = "; ".join(panel.said for panel in chart.panels)
    epochs = "; ".join(f"{own.at:%Y-%m-%d} {own.label}" for own in sorted(chart.epochs, key=lambda own: own.at))
    states = ", ".join(
        f"{str(own.state or 'not judged').replace('_', ' ')} from {own.at:%Y-%m-%d}"
        for own in sorted(chart.verdicts, key=lambda own: own.at)
    )
    parts = (panels, f"Changes: {epochs}" if epochs else "", f"Verdicts: {states}" if states else "")
    return ". ".join(part for part in parts if part) + "."
