"""Groups side by side."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetridge.quantities import quantity, signed_percent, significant
from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.engine.wording import counted
from fleetridge_server.web.charts import svg
from fleetridge_server.web.charts.axes import LINE, Axis, fitted, nice_step, percent_tick, squeezed, width_of
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.symbols import diamond, focusable


@dataclass(frozen=True, slots=True)
class PairedChange:
    """Gpus that met a change, each with itself: its effect and the interval of that, as parts of the value before."""

    label: str
    gpus: int
    effect: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """A group's values in the unit of its roof; its difference from the reference where that is known."""

    label: str
    values: Distribution
    effect: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ComparedRoof:
    """One roof: the largest group first, from whose median all differences are taken."""

    label: str
    unit: str
    reference: float
    paired: tuple[PairedChange, ...]
    groups: tuple[ComparedGroup, ...]


@dataclass(frozen=True, slots=True)
class ComparisonChart:
    """Roofs above one another on one axis."""

    title: str
    roofs: tuple[ComparedRoof, ...]


# Room for half a tick at either end.
_SIDE = 26.0
_LANE = 16.0
_BOX = 11.0
_BETWEEN_LANES = 5.0
_BETWEEN_ROOFS = 14.0
_MOST_TICKS = {Layout.WIDE: 9, Layout.NARROW: 5}
# More lanes are a list; the table below the chart has it.
_MOST_GROUPS = 8
# Noise must not fill the axis, and one absurd group must not press all others together.
_LEAST_REACH = 0.03
_FARTHEST = 0.6


@dataclass(frozen=True, slots=True)
class _DrawnRoof:
    """A roof as markup, and where its lanes begin and end."""

    markup: str
    top: float
    bottom: float


def comparison_svg(chart: ComparisonChart, layout: Layout = Layout.WIDE) -> str:
    """
    A lane for each change with the interval of its effect, and one for each group with its quartiles.

    The axis is linear: the distance from the median of the largest group, or from the gpus' own values before.
    """
    if not chart.roofs:
        return svg.empty(chart.title, "There is nothing to compare.", layout)
    axis = _axis(chart.roofs, layout)
    drawn: list[_DrawnRoof] = []
    y = svg.top_of(chart.title, layout)
    for roof in chart.roofs:
        drawn.append(_roof(roof, axis, y, layout))
        y = drawn[-1].bottom + _BETWEEN_ROOFS
    key, bottom = svg.legend(_keys(chart), y + 2.0 * LINE, layout)
    parts = (_grid(axis, drawn, y, layout), *(own.markup for own in drawn), key)
    return svg.framed(chart.title, " ".join(_sentence(roof) for roof in chart.roofs), layout, bottom, parts)


def _axis(roofs: Iterable[ComparedRoof], layout: Layout) -> Axis:
    ends = [end for roof in roofs for end in _ends(roof)]
    reach = max(_LEAST_REACH, *(abs(end) for end in ends))
    step = nice_step(reach / 4)
    low = -math.ceil(max(_LEAST_REACH, *(-end for end in ends)) / step) * step
    high = math.ceil(max(_LEAST_REACH, *ends) / step) * step
    return Axis(max(low, -_FARTHEST), min(high, _FARTHEST), _SIDE, layout.units - _SIDE)


def _ends(roof: ComparedRoof) -> list[float]:
    ends = [end for own in roof.paired for end in (own.low, own.high)]
    return ends + [_away(value, roof) for own in _shown(roof) for value in (own.values.p5, own.values.p95)]


def _shown(roof: ComparedRoof) -> Sequence[ComparedGroup]:
    return roof.groups[:_MOST_GROUPS]


def _away(value: float, roof: ComparedRoof) -> float:
    return value / roof.reference - 1


def _roof(roof: ComparedRoof, axis: Axis, top: float, layout: Layout) -> _DrawnRoof:
    name = squeezed(roof.label, layout.units - 16)
    parts = [svg.words(name, 8, top + LINE * 0.8, "fr-strong")]
    y = first = top + LINE + 2
    for change in roof.paired:
        parts.append(_change(change, axis, y, layout))
        y += LINE + _LANE + _BETWEEN_LANES
    for group in _shown(roof):
        parts.append(_group(group, roof, axis, y, layout))
        y += LINE + _LANE + _BETWEEN_LANES
    left_out = len(roof.groups) - len(_shown(roof))
    if left_out:
        more = f"and {counted(left_out, 'smaller group')} in the table"
        parts.append(svg.words(more, 8, y + LINE * 0.8, "fr-aside"))
        y += LINE
    return _DrawnRoof("".join(parts), first, y)


def _change(change: PairedChange, axis: Axis, top: float, layout: Layout) -> str:
    says = _said_of_change(change)
    short = says if layout is Layout.WIDE else f"{counted(change.gpus, 'gpu')}, {signed_percent(change.effect)}"
    middle = top + LINE + _LANE / 2
    x, low, high = axis.at(change.effect), axis.at(change.low), axis.at(change.high)
    span = [f"M{c(low)} {c(middle)}H{c(high)}M{c(low)} {c(middle - 5)}v10M{c(high)} {c(middle - 5)}v10"]
    shape = svg.path("fr-effect", span) + diamond("fr-number", x, middle, 5)
    return _head(change.label, short, top, layout) + focusable(f"{change.label}: {says}", shape, (x, middle), layout)


def _group(group: ComparedGroup, roof: ComparedRoof, axis: Axis, top: float, layout: Layout) -> str:
    says = _said_of_group(group, roof)
    short = says if layout is Layout.WIDE else says.partition(" (")[0].replace(" median", "")
    middle = top + LINE + _LANE / 2
    own = group.values
    p5, q1, median, q3, p95 = (axis.at(_away(value, roof)) for value in (own.p5, own.q1, own.median, own.q3, own.p95))
    half = _BOX / 2
    whiskers = [f"M{c(p5)} {c(middle)}H{c(q1)}M{c(q3)} {c(middle)}H{c(p95)}"]
    whiskers += [f"M{c(x)} {c(middle - 3)}v6" for x in (p5, p95)]
    shape = (
        svg.path("fr-whisker", whiskers)
        + svg.rectangle("fr-box", q1, middle - half, max(q3 - q1, 1.0), _BOX)
        + svg.path("fr-median", [f"M{c(median)} {c(middle - half - 2)}v{c(_BOX + 4)}"])
    )
    return _head(group.label, short, top, layout) + focusable(f"{group.label}: {says}", shape, (median, middle), layout)


def _head(label: str, says: str, top: float, layout: Layout) -> str:
    """Who a lane is about, and its figures: the name gives way to them."""
    name = squeezed(label, max(60.0, layout.units - 26 - width_of(says)))
    spans = (
        svg.element("tspan", {}, svg.escaped(name)),
        svg.element(
            "tspan", {"class": "fr-aside"}, svg.escaped(f"  {fitted(says, layout.units - 26 - width_of(name))}")
        ),
    )
    return svg.element("text", {"x": 8, "y": top + LINE * 0.8, "class": "fr-halo"}, *spans)


def _said_of_change(change: PairedChange) -> str:
    interval = f"{signed_percent(change.low)} to {signed_percent(change.high)}"
    return f"{counted(change.gpus, 'gpu')} with themselves {signed_percent(change.effect)} ({interval})"


def _said_of_group(group: ComparedGroup, roof: ComparedRoof) -> str:
    median = quantity(group.values.median, roof.unit)
    if group is roof.groups[0]:
        return f"{counted(group.values.n, 'gpu')}, median {median}, reference"
    away = signed_percent(_away(group.values.median, roof) if group.effect is None else group.effect)
    interval = (
        ""
        if group.low is None or group.high is None
        else f" ({signed_percent(group.low)} to {signed_percent(group.high)})"
    )
    return f"{counted(group.values.n, 'gpu')}, median {median}, {away}{interval}"


def _grid(axis: Axis, drawn: Sequence[_DrawnRoof], end: float, layout: Layout) -> str:
    ticks = axis.ticks(_MOST_TICKS[layout])
    lines = [f"M{c(axis.at(tick))} {c(own.top)}V{c(own.bottom)}" for own in drawn for tick in ticks]
    zero = [f"M{c(axis.at(0))} {c(own.top)}V{c(own.bottom)}" for own in drawn]
    base = svg.path("fr-axis", [f"M{c(axis.start - 6)} {c(end - 6)}H{c(axis.end + 6)}"])
    labels = (
        svg.words(percent_tick(tick, _LEAST_REACH / 100), axis.at(tick), end + 8, "fr-tick", "middle") for tick in ticks
    )
    name = svg.words("distance from the reference, or from before", 8, end + 24, "fr-tick")
    return svg.path("fr-grid", lines) + svg.path("fr-axis", zero) + base + "".join(labels) + name


def _keys(chart: ComparisonChart) -> list[svg.LegendKey]:
    keys = []
    if any(roof.paired for roof in chart.roofs):
        keys.append(
            svg.LegendKey(
                lambda x, y: svg.path("fr-effect", [f"M{c(x - 9)} {c(y)}h18"]) + diamond("fr-number", x, y, 4),
                "effect on the same gpus, with its interval",
            )
        )
    return [
        *keys,
        svg.LegendKey(lambda x, y: svg.path("fr-box", [f"M{c(x - 8)} {c(y - 5)}h16v10h-16z"]), "group: quartiles"),
        svg.LegendKey(
            lambda x, y: svg.path("fr-whisker", [f"M{c(x - 9)} {c(y)}h18M{c(x - 9)} {c(y - 3)}v6m18 -6v6"]), "5 to 95 %"
        ),
        svg.LegendKey(svg.upright("fr-median"), "median"),
    ]


def _sentence(roof: ComparedRoof) -> str:
    said = [f"{own.label}: {_said_of_change(own)}" for own in roof.paired]
    said += [f"{own.label}: {_said_of_group(own, roof)}" for own in _shown(roof)]
    return f"{roof.label}, reference {significant(roof.reference)}: {'; '.join(said)}."
