"""The plot of a roofline: scales that hold everything, then slope, roofs, points and workloads on a canvas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from fleetridge.log_canvas import LogCanvas, LogScale

if TYPE_CHECKING:
    from fleetridge.workloads import Workload

# With title, axes and labels a chart of 18 rows: it fits a terminal of 24 together with a legend.
_PLOT_ROWS = 13

# Air around the outermost values, in decades.
_MARGIN_DECADES = 0.2
_FEWEST_X_DECADES = 2.0
_FEWEST_Y_DECADES = 1.0

# log10 of 1 GB/s × 1 FLOP/byte in TFLOP/s.
_LOG_GBPS_TO_TFLOPS = -3.0

# x range when there is nothing but a flat roof to show.
_LOG_X_ALONE = (0.0, 3.0)

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class ComputeRoof:
    """A flat roof: how fast the gpu multiplies."""

    label: str
    pi_tflops: float


@dataclass(frozen=True, slots=True)
class MemoryRoof:
    """A sloped roof: how fast the gpu reads memory."""

    label: str
    beta_gbps: float


@dataclass(frozen=True, slots=True)
class Series:
    """Measured points of one kind, each an intensity (FLOP/byte) and a rate (TFLOP/s)."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters that a chart is drawn with; `levels` rise from the bottom of a cell to its top."""

    levels: str
    steep: str
    roofs: str
    corner: str
    guide: str
    pointer: str
    points: str
    axis_x: str
    axis_y: str
    tick_x: str
    tick_y: str
    origin: str
    at_most: str


# Low line, box line and overline join into a smooth slope, and unlike the scan lines ⎽⎼⎻⎺ every terminal font has them.
UNICODE = Glyphs("_─‾", "╱", "━═╌┄", "◆", "┊", "▲", "●○■□▼▽", "─", "│", "┴", "┤", "└", "≤")
ASCII = Glyphs("_-'", "/", "=~-.", "+", ":", "^", "ox#%@*", "-", "|", "+", "+", "+", "<=")


@dataclass(frozen=True, slots=True)
class Roofline:
    """What is drawn, checked: every number positive and finite."""

    compute: tuple[ComputeRoof, ...]
    memory: MemoryRoof | None
    series: tuple[Series, ...]
    workloads: tuple[Workload, ...]

    @property
    def log_points(self) -> list[tuple[float, float]]:
        """log10 of intensity and rate of every measured point."""
        return [(math.log10(x), math.log10(y)) for series in self.series for x, y in series.points]

    @property
    def log_pis(self) -> list[float]:
        """log10 of each flat roof, in the order given."""
        return [math.log10(roof.pi_tflops) for roof in self.compute]

    def log_slope(self, log_x: float) -> float:
        """log10 of the memory roof at an intensity; without one there is no such limit."""
        if self.memory is None:
            return math.inf
        return math.log10(self.memory.beta_gbps) + log_x + _LOG_GBPS_TO_TFLOPS

    def log_ridge(self, log_pi: float) -> float:
        """log10 of the intensity at which a compute roof meets the slope."""
        return -math.inf if self.memory is None else log_pi - self.log_slope(0.0)

    def log_attainable(self, log_x: float) -> float:
        """log10 of the lower of slope and highest flat roof at an intensity."""
        return min([self.log_slope(log_x), *([max(self.log_pis)] if self.compute else [])])


def drawn(roofline: Roofline, glyphs: Glyphs, columns: int) -> LogCanvas:
    """Draw the whole plot, later marks over earlier ones: slope, roofs, points, workloads."""
    canvas = LogCanvas(*_scales(roofline, columns))
    _draw_slope(canvas, roofline, glyphs)
    _draw_roofs(canvas, roofline, glyphs)
    _draw_points(canvas, roofline, glyphs)
    _draw_workloads(canvas, roofline)
    return canvas


def _scales(roofline: Roofline, columns: int) -> tuple[LogScale, LogScale]:
    """Axes that hold every ridge, point and workload, with some air around them."""
    log_xs = [x for x, _ in roofline.log_points]
    log_xs += [math.log10(workload.intensity) for workload in roofline.workloads]
    log_xs += [ridge for pi in roofline.log_pis if math.isfinite(ridge := roofline.log_ridge(pi))]
    x_low, x_high = _widened(log_xs or list(_LOG_X_ALONE), _FEWEST_X_DECADES)
    log_ys = [y for _, y in roofline.log_points] + roofline.log_pis
    log_ys += [roofline.log_attainable(x) for x in (x_low, x_high)]
    y_low, y_high = _widened(log_ys, _FEWEST_Y_DECADES)
    return LogScale(x_low, x_high, columns), LogScale(y_low, y_high, _PLOT_ROWS)


def _widened(logs: list[float], fewest_decades: float) -> tuple[float, float]:
    low, high = min(logs) - _MARGIN_DECADES, max(logs) + _MARGIN_DECADES
    lacking = max(0.0, fewest_decades - (high - low))
    return low - lacking / 2, high + lacking / 2


def _draw_slope(canvas: LogCanvas, roofline: Roofline, glyphs: Glyphs) -> None:
    """The memory roof up to the highest ridge, or right across where there is no compute roof."""
    if roofline.memory is None:
        return
    last_ridge = max(map(roofline.log_ridge, roofline.log_pis), default=math.inf)
    below = None
    for column in range(canvas.x.cell(last_ridge) + 1):
        log_y = roofline.log_slope(min(canvas.x.value_at(column), last_ridge))
        row = canvas.row(log_y)
        canvas.put(column, row, canvas.level(log_y, glyphs.levels))
        for between in range(row + 1, row if below is None else below):
            canvas.put(column, between, glyphs.steep)
        below = row


def _draw_roofs(canvas: LogCanvas, roofline: Roofline, glyphs: Glyphs) -> None:
    """Flat roofs from their ridges to the right, lowest first, so that the highest stands on top."""
    by_height = sorted(zip(roofline.log_pis, cycle(glyphs.roofs)), key=lambda roof: roof[0])
    for log_pi, glyph in by_height:
        row, log_ridge = canvas.row(log_pi), roofline.log_ridge(log_pi)
        first = canvas.x.cell(log_ridge) if math.isfinite(log_ridge) else 0
        for column in range(first, canvas.x.cells):
            canvas.put(column, row, glyph)
        if math.isfinite(log_ridge):
            canvas.put(first, row, glyphs.corner)
            for below in range(row + 1, canvas.y.cells):
                canvas.put(first, below, glyphs.guide, over=False)


def _draw_points(canvas: LogCanvas, roofline: Roofline, glyphs: Glyphs) -> None:
    for series, glyph in zip(roofline.series, cycle(glyphs.points)):
        for intensity, tflops in series.points:
            canvas.put(canvas.x.cell(math.log10(intensity)), canvas.row(math.log10(tflops)), glyph)


def _draw_workloads(canvas: LogCanvas, roofline: Roofline) -> None:
    """Letters on the limiting roof; where a letter stands already, the next goes above it, or below."""
    taken: set[tuple[int, int]] = set()
    for workload, letter in zip(roofline.workloads, cycle(LETTERS)):
        log_x = math.log10(workload.intensity)
        column, row = canvas.x.cell(log_x), canvas.row(roofline.log_attainable(log_x))
        for candidate in sorted(range(canvas.y.cells), key=lambda other: abs(other - row)):
            if (column, candidate) not in taken:
                canvas.put(column, candidate, letter)
                taken.add((column, candidate))
                break
