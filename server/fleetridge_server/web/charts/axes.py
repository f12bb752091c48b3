"""Axes, and labels placed so that they do not overlap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge.terminal_text import ELLIPSIS, display_width, shortened, visible

# Steps that people count in.
_NICE_STEPS = (1, 2, 2.5, 5, 10)

# Within a decade; more would stand too close to read.
_LOG_MULTIPLES = (1, 2, 5)

# What is left over where steps are added up in binary.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Axis:
    """
    Linear axis from `low` at `start` to `high` at `end`; `end` may lie before `start`.

    What lies outside is moved to the edge: a mark must never leave its chart.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Place of a value in user units."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, at_most: int) -> list[float]:
        """Multiples of a nice step within the axis, at most so many (and one more where both ends have one)."""
        step = nice_step((self.high - self.low) / at_most)
        first, last = math.ceil(self.low / step - _ROUNDING), math.floor(self.high / step + _ROUNDING)
        return [number * step for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class LogAxis:
    """Logarithmic axis between the decimal logarithms `low` and `high`; else like `Axis`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Place of a positive value in user units."""
        return self.at_log(math.log10(value))

    def at_log(self, log10_value: float) -> float:
        """Place of a decimal logarithm."""
        return Axis(self.low, self.high, self.start, self.end).at(log10_value)

    @property
    def units_per_decade(self) -> float:
        """Length of a decade."""
        return abs(self.end - self.start) / (self.high - self.low)

    def ticks(self, units_apart: float) -> list[float]:
        """Values 1, 2, 5, 10, … or powers of ten alone, so that they stand about so many units apart."""
        multiples: Sequence[int] = (
            _LOG_MULTIPLES if self.units_per_decade / len(_LOG_MULTIPLES) >= units_apart else (1,)
        )
        every = max(1, math.ceil(units_apart / self.units_per_decade))
        first = math.floor(self.low / every) * every
        values = [
            multiple * 10.0**exponent
            for exponent in range(first, math.ceil(self.high), every)
            for multiple in multiples
        ]
        values += [10.0 ** math.floor(self.high)] if (math.floor(self.high) - first) % every == 0 else []
        return sorted({value for value in values if self.low <= math.log10(value) <= self.high})


def nice_step(least: float) -> float:
    """Smallest of …, 1, 2, 2.5, 5, 10, … that is at least so large."""
    decade = 10.0 ** math.floor(math.log10(least))
    return next(step * decade for step in _NICE_STEPS if step * decade >= least * (1 - _ROUNDING))


def roomy(low: float, high: float, *, least_span: float, share: float) -> tuple[float, float]:
    """A range with a share of itself added at both ends, and never narrower than `least_span`."""
    middle, half = (low + high) / 2, max((high - low) * (1 + 2 * share), least_span) / 2
    return middle - half, middle + half


def written(tick: float, largest: float) -> str:
    """A tick in plain digits, without the crumbs of binary sums; 0 where it is nothing beside the largest."""
    return "0" if abs(tick) < _ROUNDING * abs(largest) else f"{tick:.10g}".replace("-", "−")


def percent_tick(share: float, least: float) -> str:
    """A tick of an axis of parts, "+5 %"; 0 where it is less than the least that matters."""
    return "0" if abs(share) < least else f"{100 * share:+.3g} %".replace("-", "−")


# Mean advance of a character over the size of its font, in DejaVu Sans, the widest of the usual fonts.
_ADVANCE = 0.57
# Between names in a row, and between a name and a line that passes it.
_APART = 10.0
_CLEAR = 2.0
# Of a squeezed name so much is its beginning: 1/3.
_PART_OF_HEAD = 3
FONT_SIZE = 12.5
LINE = 17.0


def width_of(content: str) -> float:
    """Width of words in user units, estimated from above."""
    return display_width(visible(content)) * _ADVANCE * FONT_SIZE


def fitted(content: str, width: float) -> str:
    """Words that fit into a width, their end replaced by an ellipsis where they did not."""
    return shortened(visible(content), columns_in(width))


def squeezed(content: str, width: float) -> str:
    """
    A name that fits into a width, its middle replaced by an ellipsis where it did not.

    Nodes of a cluster begin alike; it is their ends that tell them apart.
    """
    shown, columns = visible(content), columns_in(width)
    if display_width(shown) <= columns:
        return shown
    head = shortened(shown, columns // _PART_OF_HEAD, ellipsis="")
    tail = shortened(shown[::-1], max(0, columns - display_width(head) - 1), ellipsis="")[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def columns_in(width: float, size: float = FONT_SIZE) -> int:
    """Characters of ordinary width that fit into a width; at least one."""
    return max(1, int(width / (_ADVANCE * size)))


def pushed_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """
    Places at least `gap` apart, in the order of those that are wanted and as near to them as that allows.

    Neighbours that come too close move apart around their common middle (isotonic regression by pooling adjacent
    violators). They stay between `low` and `high` where there is room for all, else they start at `low`.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    pools: list[list[float]] = []
    for rank, index in enumerate(order):
        pools.append([wanted[index] - rank * gap, 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean, count), (next_mean, next_count) = pools[-2], pools.pop()
            pools[-1] = [(mean * count + next_mean * next_count) / (count + next_count), count + next_count]
    last = max(low, high - (len(wanted) - 1) * gap)
    shifted = [min(max(mean, low), last) for mean, count in pools for _ in range(int(count))]
    places = [0.0] * len(wanted)
    for rank, index in enumerate(order):
        places[index] = shifted[rank] + rank * gap
    return places


def rows_without_overlap(spans: Sequence[tuple[float, float]], rows: int) -> list[int | None]:
    """For each span from start to end the first of so many rows that has room for it; None where none has."""
    ends: list[list[tuple[float, float]]] = [[] for _ in range(rows)]
    found: list[int | None] = []
    for start, end in spans:
        row = next((row for row, taken in enumerate(ends) if all(end <= a or start >= b for a, b in taken)), None)
        if row is not None:
            ends[row].append((start, end))
        found.append(row)
    return found


@dataclass(frozen=True, slots=True)
class Callout:
    """Where a name below its mark begins, and in which row."""

    row: int
    start: float


def callouts(
    xs: Sequence[float], widths: Sequence[float], rows: int, left: float, right: float
) -> list[Callout | None]:
    """
    Rows of names below marks, joined to them by vertical lines that cross no name.

    Earlier ones are placed first: to the left of their lines, else centred, else to the right. None where a name has no
    room.

    Args:
        xs: of the marks.
        widths: of the names.
        rows: how many there may be.
        left: where names may begin.
        right: where they must end.
    """
    placed: list[tuple[float, float, Callout]] = []
    found: list[Callout | None] = []
    for number, (x, width) in enumerate(zip(xs, widths, strict=True)):
        starts = [min(max(x - share * width, left), right - width) for share in (0.95, 0.5, 0.05)]
        free = [
            Callout(row, start)
            for row in range(rows)
            for start in starts
            if all(_keep_clear((x, width, Callout(row, start)), other) for other in placed)
        ]
        # What leaves the lines of the names to come free is better than what is merely free now.
        far_sighted = (place for place in free if not _covers(place.start, width, xs[number + 1 :]))
        place = next(far_sighted, free[0] if free else None)
        found.append(place)
        if place is not None:
            placed.append((x, width, place))
    return found


def _covers(start: float, width: float, xs: Sequence[float]) -> bool:
    return any(start - _CLEAR <= x <= start + width + _CLEAR for x in xs)


def _keep_clear(one: tuple[float, float, Callout], other: tuple[float, float, Callout]) -> bool:
    """Whether neither two names meet nor the line of one crosses the name of the other."""
    (x, width, place), (other_x, other_width, other_place) = one, other
    end, other_end = place.start + width, other_place.start + other_width
    if place.row == other_place.row:
        return end + _APART <= other_place.start or other_end + _APART <= place.start
    upper_start, upper_end, lower_x = (
        (place.start, end, other_x) if place.row < other_place.row else (other_place.start, other_end, x)
    )
    return not upper_start - _CLEAR <= lower_x <= upper_end + _CLEAR
