"""Room for labels: how wide words are, and where they go so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge.terminal_text import ELLIPSIS, display_width, shortened, visible

# Mean advance of a character over the size of its font, in DejaVu Sans, the widest of the usual fonts.
_ADVANCE = 0.57
# Between names in a row, and between a name and a line that passes it.
_APART = 10.0
_CLEAR = 2.0
# Of a squeezed name so much is its beginning: 1/3.
_PART_OF_HEAD = 3
FONT_SIZE = 12.5
LINE = 17.0


def width_of(content: str, size: float = FONT_SIZE) -> float:
    """Width of words in user units, estimated from above."""
    return display_width(visible(content)) * _ADVANCE * size


def fitted(content: str, width: float, size: float = FONT_SIZE) -> str:
    """Words that fit into a width, their end replaced by an ellipsis where they did not."""
    return shortened(visible(content), columns_in(width, size))


def squeezed(content: str, width: float, size: float = FONT_SIZE) -> str:
    """
    A name that fits into a width, its middle replaced by an ellipsis where it did not.

    Nodes of a cluster begin alike; it is their ends that tell them apart.
    """
    shown, columns = visible(content), columns_in(width, size)
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
