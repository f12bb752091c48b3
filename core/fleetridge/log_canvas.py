"""A grid of characters with logarithmic axes, for charts in a terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

# Exponents that read better as plain digits: 0.001 … 10000.
_PLAIN_EXPONENTS = range(-3, 5)

BLANK = " "


@dataclass(frozen=True, slots=True)
class LogScale:
    """
    Maps decimal logarithms onto cells.

    Attributes:
        low: log10 at the start of the first cell.
        high: log10 at the end of the last cell.
        cells: number of cells.
    """

    low: float
    high: float
    cells: int

    def position(self, log10_value: float) -> float:
        """Place on the axis in cells, from 0 at the low end; what lies outside is moved to the edge."""
        share = (log10_value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0) * self.cells

    def cell(self, log10_value: float) -> int:
        """Number of the cell that holds the value, from 0 at the low end."""
        return min(int(self.position(log10_value)), self.cells - 1)

    def value_at(self, cell: int) -> float:
        """Decimal logarithm in the middle of a cell."""
        return self.low + (cell + 0.5) / self.cells * (self.high - self.low)

    def ticks(self, *, cells_apart: int) -> list[int]:
        """Powers of ten for the axis, at least so many cells apart."""
        cells_per_decade = self.cells / (self.high - self.low)
        step = max(1, math.ceil(cells_apart / cells_per_decade))
        first = math.ceil(self.low / step) * step
        return list(range(first, math.floor(self.high) + 1, step))


@dataclass(slots=True)
class LogCanvas:
    """Characters on a grid, written by decimal logarithms of x and y; row 0 is the top."""

    x: LogScale
    y: LogScale
    rows: list[list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [[BLANK] * self.x.cells for _ in range(self.y.cells)]

    def row(self, log10_y: float) -> int:
        """Row that holds a value of y."""
        return self.y.cells - 1 - self.y.cell(log10_y)

    def level(self, log10_y: float, levels: str) -> str:
        """Of glyphs drawn from low to high within a cell, the one that comes closest to y."""
        within = self.y.position(log10_y) - self.y.cell(log10_y)
        return levels[min(int(within * len(levels)), len(levels) - 1)]

    def put(self, column: int, row: int, glyph: str, *, over: bool = True) -> bool:
        """Write a glyph; with `over` false only where the cell is blank. Says whether it was written."""
        inside = 0 <= row < self.y.cells and 0 <= column < self.x.cells
        if not inside or not (over or self.rows[row][column] == BLANK):
            return False
        self.rows[row][column] = glyph
        return True


def power_of_ten(exponent: int) -> str:
    """Label of a tick: plain digits for ordinary sizes, "1e+06" beyond."""
    if exponent in _PLAIN_EXPONENTS:
        return f"{10.0**exponent:.{max(0, -exponent)}f}"
    return f"1e{exponent:+03d}"


def placed_labels(labels: list[tuple[int, str]], width: int) -> str:
    """One line with labels centred on their columns; a label that meets another or the end of the line is left out."""
    line = ""
    for column, label in sorted(labels):
        start = max(0, column - len(label) // 2)
        free = len(line) + 1 if line else 0
        if start >= free and start + len(label) <= width:
            line = line.ljust(start) + label
    return line
