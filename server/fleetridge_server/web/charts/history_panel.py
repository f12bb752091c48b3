"""One roof of one gpu over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from fleetridge.quantities import quantity, significant
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.web.charts.axes import LINE, Axis, fitted, roomy, squeezed, width_of, written
from fleetridge_server.web.charts.svg import Layout, element, escaped, path, rectangle, titled, words
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.symbols import circle, focusable, triangle_down


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """
    One run's figure.

    Attributes:
        at: ordering time, in UTC.
        accused: whether it lies beyond the limit of its peers.
        note: what to know of it, such as "contended"; a run with a note is drawn hollow.
    """

    at: datetime
    value: float
    accused: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class PeerBand:
    """Where the peers are now: 5th percentile, median, 95th percentile."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class HistoryPanel:
    """One figure over time, in `unit`; points in any order."""

    label: str
    unit: str
    points: tuple[HistoryPoint, ...]
    band: PeerBand | None = None

    @property
    def ordered(self) -> list[HistoryPoint]:
        """Points by time."""
        return sorted(self.points, key=lambda point: (point.at, point.value))

    @property
    def said(self) -> str:
        """The panel in a sentence."""
        if not self.points:
            return f"{self.label}: no reading"
        values = [point.value for point in self.ordered]
        runs = f"{len(values)} run{'' if len(values) == 1 else 's'}"
        span = f"from {significant(min(values))} to {quantity(max(values), self.unit)}"
        return f"{self.label}: {runs} {span}, newest {quantity(values[-1], self.unit)}"


@dataclass(frozen=True, slots=True)
class EpochMark:
    """A change of settings, such as "driver 550.54 → 560.28"."""

    at: datetime
    label: str


@dataclass(frozen=True, slots=True)
class VerdictMark:
    """What was said of the gpu from a time on; a null state where it was not spoken of."""

    at: datetime
    state: State | None


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that measured nothing, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class HistoryChart:
    """What is drawn, from the first run to the last, or `until` now, so that a gpu that fell silent shows it."""

    title: str
    panels: tuple[HistoryPanel, ...]
    epochs: tuple[EpochMark, ...] = ()
    verdicts: tuple[VerdictMark, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    until: datetime | None = None


SIDE = {Layout.WIDE: 66.0, Layout.NARROW: 58.0}
_PLOT = {Layout.WIDE: 74.0, Layout.NARROW: 66.0}
_AIR = 12.0
_RADIUS = 3.2
_TICKS = 3
# Left and right of a panel's head, and between its name and its value.
_MARGINS = 32.0
# How much wider bold letters are.
_BOLD = 1.1

# Noise of half a per cent must not fill a panel: its height is always at least this part of the median.
_LEAST_SPAN = 0.08

# Runs come on a schedule with jitter; so many times their usual distance is no jitter.
_GAP = 2.5

# Widest steps between ticks of time that people count in.
_STEPS = tuple(
    timedelta(hours=hours) for hours in (1, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24, 84 * 24, 168 * 24, 336 * 24)
)


@dataclass(frozen=True, slots=True)
class Times:
    """Axis of time: seconds since `first`."""

    first: datetime
    axis: Axis

    def at(self, moment: datetime) -> float:
        """Place of a moment."""
        return self.axis.at((moment - self.first).total_seconds())

    def ticks(self, at_most: int) -> list[tuple[float, str]]:
        """Places and words; days where a day is small, else hours, too."""
        span = timedelta(seconds=self.axis.high)
        step = next((step for step in _STEPS if span / step <= at_most), span / at_most)
        day = self.first.replace(hour=0, minute=0, second=0, microsecond=0)
        # Counted in spans, as after the last tick there may be no further date.
        until = min(self.first - day + span, datetime.max.replace(tzinfo=day.tzinfo) - day)
        moments = [day + number * step for number in range((self.first - day) // step + 1, until // step + 1)]
        form = "%m-%d" if step >= timedelta(days=1) else "%m-%d %Hh"
        return [(self.at(moment), f"{moment:{form}}") for moment in moments]


def panel_height(panel: HistoryPanel, layout: Layout) -> float:
    """Room that a panel takes, its name included."""
    return LINE + _AIR + (_PLOT[layout] if panel.points else LINE)


def panel_markup(panel: HistoryPanel, times: Times, top: float, layout: Layout) -> str:
    """Name and newest value, scale, peers, line and points."""
    points = panel.ordered
    newest = fitted(f"newest {quantity(points[-1].value, panel.unit)}" if points else "no reading", 200)
    name = squeezed(panel.label, (layout.units - _MARGINS - width_of(newest)) / _BOLD)
    spans = element("tspan", {"class": "fr-strong"}, escaped(name))
    head = element(
        "text",
        {"x": 8, "y": top + LINE * 0.75, "class": "fr-halo"},
        spans,
        element("tspan", {"class": "fr-aside"}, escaped(f"  {newest}")),
    )
    if not points:
        return head
    scale = _scale(panel, top + LINE + 4, top + LINE + _PLOT[layout])
    return (
        _ticks(scale, times)
        + _band(panel, scale, times)
        + path("fr-trace", _trace(points, scale, times))
        + head
        + "".join(_point(point, panel, scale.at(point.value), times, layout) for point in points)
    )


def _scale(panel: HistoryPanel, top: float, bottom: float) -> Axis:
    values = [point.value for point in panel.points]
    band = panel.band
    shown = values if band is None else [*values, band.low, band.high]
    span = max(_LEAST_SPAN * abs(median(values)), 1e-9)
    low, high = roomy(min(shown), max(shown), least_span=span, share=0.06)
    return Axis(low, high, bottom, top)


def _ticks(scale: Axis, times: Times) -> str:
    ticks = scale.ticks(_TICKS)
    lines = [f"M{c(times.axis.start)} {c(scale.at(tick))}H{c(times.axis.end)}" for tick in ticks]
    labels = (
        words(written(tick, scale.high), times.axis.start - 6, scale.at(tick) + 4, "fr-tick", "end") for tick in ticks
    )
    return path("fr-grid", lines) + "".join(labels)


def _band(panel: HistoryPanel, scale: Axis, times: Times) -> str:
    band = panel.band
    if band is None:
        return ""
    left, width = times.axis.start, times.axis.end - times.axis.start
    upper, lower = scale.at(band.high), scale.at(band.low)
    area = rectangle("fr-peers", left, upper, width, max(lower - upper, 1))
    middle = path("fr-peers-median", [f"M{c(left)} {c(scale.at(band.median))}h{c(width)}"])
    return titled(f"peers now: {quantity(band.median, panel.unit)}", area, middle)


def _trace(points: Sequence[HistoryPoint], scale: Axis, times: Times) -> list[str]:
    """Commands of the line; a gap in time is a gap in the line."""
    steps = [later.at - earlier.at for earlier, later in pairwise(points)]
    longest_s = _GAP * median(step.total_seconds() for step in steps) if steps else 0.0
    pens = ["M", *("L" if step.total_seconds() <= longest_s else "M" for step in steps)]
    return [f"{pen}{c(times.at(point.at))} {c(scale.at(point.value))}" for pen, point in zip(pens, points, strict=True)]


def _point(point: HistoryPoint, panel: HistoryPanel, y: float, times: Times, layout: Layout) -> str:
    x = times.at(point.at)
    says = f"{point.at:%Y-%m-%d %H:%M} UTC: {quantity(point.value, panel.unit)}"
    if point.accused:
        says = f"{says}, beyond the limit"
    if point.note:
        says = f"{says}, {point.note}"
    if point.accused:
        return focusable(says, triangle_down("fr-accused", x, y, _RADIUS * 1.4), (x, y), layout, stops=False)
    kind = "fr-unsure" if point.note else "fr-peer"
    return titled(says, circle(kind, x, y, _RADIUS))
