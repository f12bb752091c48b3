"""How a rate is distributed over a fleet."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor

from fleetridge.quantities import quantity, significant
from fleetridge_server.engine.statistics import Distribution, distribution
from fleetridge_server.engine.wording import counted
from fleetridge_server.web.charts import svg
from fleetridge_server.web.charts.axes import LINE, Axis, nice_step, roomy, written
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.svg import coordinate as c

# Of gpus that are spread out between quantiles less than half a one is none.
LEAST_COUNT = 0.5

_PERCENTILES = 101


@dataclass(frozen=True, slots=True)
class Spread:
    """
    Quantiles of a group.

    Attributes:
        gpus: how many there are.
        parts: fraction of the gpus and the value that they lie below, both ascending. What lies before the first and
            after the last is not spread out: there one gpu may lie far from all others.
        low, high: the lowest and the highest value, where they are known.
    """

    gpus: int
    parts: tuple[tuple[float, float], ...]
    low: float | None = None
    high: float | None = None

    @property
    def bottom(self) -> float:
        """The lowest that is known of it."""
        return self.parts[0][1] if self.low is None else self.low

    @property
    def top(self) -> float:
        """The highest that is known of it."""
        return self.parts[-1][1] if self.high is None else self.high

    def covers(self, value: float) -> bool:
        """Whether a value is among those that are spread out."""
        return self.parts[0][1] <= value <= self.parts[-1][1]

    def counts(self, step: float) -> Mapping[int, float]:
        """Gpus by bin, evenly spread between neighbouring quantiles; bin k reaches from k·step to (k + 1)·step."""
        found: dict[int, float] = defaultdict(float)
        for (below, start), (above, end) in pairwise(self.parts):
            gpus = self.gpus * (above - below)
            first, last = floor(start / step), floor(end / step)
            if first == last:
                found[first] += gpus
                continue
            for number in range(first, last + 1):
                inside = min(end, (number + 1) * step) - max(start, number * step)
                found[number] += gpus * inside / (end - start)
        return found


def of_quantiles(gpus: int, quantiles: Sequence[float]) -> Spread:
    """Of the 101 values from 0 % to 100 %. Raises ValueError: it is another number of values."""
    if len(quantiles) != _PERCENTILES:
        raise ValueError(f"{len(quantiles)} quantiles: give those at 0 %, 1 % … 100 %, {_PERCENTILES} of them")
    parts = tuple((number / 100, value) for number, value in enumerate(quantiles))
    return Spread(gpus, parts[1:-1], quantiles[0], quantiles[-1])


def of_distribution(figures: Distribution) -> Spread:
    """Of the figures that an answer states: percentiles 5 and 95, quartiles and median."""
    five = (0.05, figures.p5), (0.25, figures.q1), (0.5, figures.median), (0.75, figures.q3), (0.95, figures.p95)
    return Spread(figures.n, five)


def scaled(spread: Spread, median: float) -> Spread:
    """The same as deviations from a median."""

    def away(value: float) -> float:
        return value / median - 1

    return Spread(
        spread.gpus,
        tuple((part, away(value)) for part, value in spread.parts),
        None if spread.low is None else away(spread.low),
        None if spread.high is None else away(spread.high),
    )


_BINS = {Layout.WIDE: 80, Layout.NARROW: 40}
_MOST_TICKS = {Layout.WIDE: 9, Layout.NARROW: 4}
_SIDE = 26.0
_BARS = 110.0
_BOX = 22.0
_LOWEST_BAR = 2.5
# Two gpus that differ by noise must not look like two worlds.
_LEAST_SPAN = 0.04


@dataclass(frozen=True, slots=True)
class DistributionChart:
    """
    One figure of a group.

    Attributes:
        values: of all gpus, in `unit`; of those that deserve a look where `crowd` has quantiles and figures of all.
        published: the maker's figure; None where it is not known.
        lowest: value below which a gpu is accused.
    """

    title: str
    unit: str
    values: tuple[float, ...]
    published: float | None = None
    lowest: float | None = None
    crowd: tuple[Spread, Distribution] | None = None

    @property
    def figures(self) -> Distribution:
        """Of all gpus."""
        return distribution(self.values) if self.crowd is None else self.crowd[1]

    @property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest value."""
        return (min(self.values), max(self.values)) if self.crowd is None else (self.crowd[0].bottom, self.crowd[0].top)

    def counts(self, step: float) -> Mapping[int, float]:
        """Gpus by bin."""
        if self.crowd is None:
            return Counter(floor(value / step) for value in self.values)
        spread = self.crowd[0]
        found = Counter(floor(value / step) for value in self.values if not spread.covers(value))
        return {number: gpus + found.pop(number, 0) for number, gpus in spread.counts(step).items()} | found


def distribution_svg(chart: DistributionChart, layout: Layout = Layout.WIDE) -> str:
    """Histogram over a box of quartiles (5th and 95th percentiles at its whiskers) and median."""
    if not chart.values and chart.crowd is None:
        return svg.empty(chart.title, "No gpu was measured yet.", layout)
    figures = chart.figures
    top = svg.top_of(chart.title, layout) + LINE
    base = top + _BARS
    axis = _axis(chart, figures, layout)
    key, bottom = svg.legend(_keys(chart), base + _BOX + 1.9 * LINE, layout)
    parts = (
        svg.words(_sentence(chart, figures, layout), 8, top - 8, "fr-aside"),
        _grid(chart.unit, axis, top, base, layout),
        _bars(chart, axis, base, layout),
        _box(figures, axis, base + 3),
        _lines(chart, axis, top, base),
        key,
    )
    return svg.framed(chart.title, _description(chart, figures), layout, bottom, parts)


def _axis(chart: DistributionChart, figures: Distribution, layout: Layout) -> Axis:
    shown = [*chart.reach, *(value for value in (chart.published, chart.lowest) if value is not None)]
    span = max(_LEAST_SPAN * abs(figures.median), abs(figures.median) * 1e-6)
    low, high = roomy(min(shown), max(shown), least_span=span, share=0.03)
    return Axis(low, high, _SIDE, layout.units - _SIDE)


def _bars(chart: DistributionChart, axis: Axis, base: float, layout: Layout) -> str:
    step = nice_step((axis.high - axis.low) / _BINS[layout])
    bins = chart.counts(step)
    most = max(bins.values())
    drawn = (number for number in sorted(bins) if bins[number] >= LEAST_COUNT)
    return "".join(_bar(number * step, step, bins[number], most, (axis, base, chart.unit)) for number in drawn)


def _bar(low: float, step: float, gpus: float, most: float, where: tuple[Axis, float, str]) -> str:
    axis, base, unit = where
    left, right = axis.at(low), axis.at(low + step)
    height = max(_LOWEST_BAR, (_BARS - 6) * gpus / most)
    count = round(gpus)
    says = f"{counted(count, 'gpu')} from {significant(low)} to {quantity(low + step, unit)}"
    bar = [f"M{c(left + 0.4)} {c(base)}v{c(-height)}H{c(max(right - 0.4, left + 1))}v{c(height)}z"]
    return svg.titled(says, svg.path("fr-bar", bar))


def _box(figures: Distribution, axis: Axis, top: float) -> str:
    q1, q3, p5, p95, middle = (axis.at(v) for v in (figures.q1, figures.q3, figures.p5, figures.p95, figures.median))
    height = _BOX - 8
    whiskers = [f"M{c(p5)} {c(top + height / 2)}H{c(q1)}M{c(q3)} {c(top + height / 2)}H{c(p95)}"]
    whiskers += [f"M{c(x)} {c(top + 3)}v{c(height - 6)}" for x in (p5, p95)]
    box = svg.rectangle("fr-box", q1, top, max(q3 - q1, 1.0), height)
    return (
        svg.path("fr-whisker", whiskers) + box + svg.path("fr-median", [f"M{c(middle)} {c(top - 3)}v{c(height + 6)}"])
    )


def _lines(chart: DistributionChart, axis: Axis, top: float, base: float) -> str:
    """Limit and published figure."""
    vertical = f" {c(top)}V{c(base + _BOX)}"
    parts = []
    if chart.lowest is not None:
        parts.append(svg.path("fr-limit", [f"M{c(axis.at(chart.lowest))}{vertical}"]))
    if chart.published is not None:
        parts.append(svg.path("fr-published", [f"M{c(axis.at(chart.published))}{vertical}"]))
    return "".join(parts)


def _grid(unit: str, axis: Axis, top: float, base: float, layout: Layout) -> str:
    ticks = axis.ticks(_MOST_TICKS[layout])
    labels = (
        svg.words(written(tick, axis.high), axis.at(tick), base + _BOX + 12, "fr-tick", "middle") for tick in ticks
    )
    return (
        svg.path("fr-grid", [f"M{c(axis.at(tick))} {c(top)}V{c(base)}" for tick in ticks])
        + svg.path("fr-axis", [f"M{c(axis.start - 8)} {c(base)}H{c(axis.end + 8)}"])
        + "".join(labels)
        + svg.words(unit, 8, base + _BOX + 27, "fr-tick")
    )


def _keys(chart: DistributionChart) -> list[svg.LegendKey]:
    keys = [
        svg.LegendKey(svg.bar, "gpus, by number"),
        svg.LegendKey(lambda x, y: svg.path("fr-box", [f"M{c(x - 8)} {c(y - 5)}h16v10h-16z"]), "quartiles, 5 to 95 %"),
        svg.LegendKey(svg.upright("fr-median"), "median"),
    ]
    if chart.lowest is not None:
        keys.append(svg.LegendKey(svg.upright("fr-limit"), "limit"))
    if chart.published is not None:
        keys.append(svg.LegendKey(svg.upright("fr-published"), "published"))
    return keys


def _sentence(chart: DistributionChart, figures: Distribution, layout: Layout) -> str:
    gpus = counted(figures.n, "gpu")
    if figures.n == 1:
        return f"{gpus}, {quantity(figures.median, chart.unit)}"
    short = f"{gpus}, median {quantity(figures.median, chart.unit)}"
    if layout is Layout.NARROW:
        return short
    quartiles = f"quartiles {significant(figures.q1)}–{significant(figures.q3)}"
    return f"{short}, {quartiles}, 5 to 95 % {significant(figures.p5)}–{significant(figures.p95)}"


def _description(chart: DistributionChart, figures: Distribution) -> str:
    said = [_sentence(chart, figures, Layout.WIDE)]
    if chart.published is not None:
        said.append(f"published {quantity(chart.published, chart.unit)}")
    if chart.lowest is not None:
        said.append(f"accused below {quantity(chart.lowest, chart.unit)}")
    return ", ".join(said) + "."
