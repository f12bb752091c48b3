"""Plain-text tables and blocks for terminals: aligned, titled, never wider than asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fleetridge.terminal_text import display_width, padded, shortened, visible, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

# The classic terminal; also what fits a mail or an incident ticket unbroken.
DEFAULT_WIDTH = 80

_GAP = "  "

# Below this many columns a shortened text no longer tells one device from another; then columns go instead.
_SHORTEST_TEXT = 8


@dataclass(frozen=True, slots=True)
class Column:
    """
    Head of a column.

    Attributes:
        name: what it holds.
        unit: unit of its numbers, printed in a line of its own below the names.
        align: numbers stand to the right and are never shortened; text stands to the left and gives way.
    """

    name: str
    unit: str = ""
    align: Literal["left", "right"] = "right"


@dataclass(frozen=True, slots=True)
class _Strip:
    """A column with its cells, widths known."""

    head: Column
    is_text: bool
    cells: tuple[str, ...]

    @property
    def heading(self) -> tuple[str, str]:
        """Name and unit, one below the other."""
        return self.head.name, self.head.unit

    @property
    def natural_width(self) -> int:
        """Columns that the widest cell takes."""
        return max(display_width(text) for text in (*self.heading, *self.cells))


def text_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    width: int = DEFAULT_WIDTH,
) -> str:
    """
    A table as lines of at most `width` columns, without a newline at the end.

    The first column is text and stands to the left. Where the table is too wide, the widest texts are shortened with
    "…"; numbers are never cut. If that does not suffice, columns are left out from the right, and a last line names
    them.

    Args:
        columns: heads, in order.
        rows: cells as text, one for each column.
        title: line above the table.
        width: columns of the terminal.

    Raises:
        ValueError: no columns, or a row with another number of cells.
    """
    _require_shape(columns, rows)
    strips = [
        _Strip(head, index == 0 or head.align == "left", tuple(visible(row[index]) for row in rows))
        for index, head in enumerate(columns)
    ]
    shown, widths = _fitted(strips, width)
    lines = [shortened(visible(title), width)] if title else []
    lines += [_line([strip.head.name for strip in shown], shown, widths)]
    if any(strip.head.unit for strip in shown):
        lines += [_line([strip.head.unit for strip in shown], shown, widths)]
    lines += [_GAP.join("-" * column for column in widths)]
    lines += [_line([strip.cells[index] for strip in shown], shown, widths) for index in range(len(rows))]
    if len(shown) < len(strips):
        left_out = ", ".join(strip.head.name for strip in strips[len(shown) :])
        lines += [shortened(f"(too wide for {width} columns, left out: {left_out})", width)]
    return "\n".join(lines)


def key_values(pairs: Sequence[tuple[str, str]], *, title: str = "", width: int = DEFAULT_WIDTH) -> str:
    """
    Names and values in two columns; a value that is too long goes on below, so that nothing is lost.

    Names are shortened where they would take more than half of the width.
    """
    names = [shortened(visible(name), width // 2) for name, _ in pairs]
    name_width = max(map(display_width, names), default=0)
    value_width = width - name_width - len(_GAP)
    lines = [shortened(visible(title), width), "-" * display_width(shortened(visible(title), width))] if title else []
    for name, (_, value) in zip(names, pairs, strict=True):
        first, *rest = wrapped(visible(value), value_width)
        lines.append(f"{padded(name, name_width)}{_GAP}{first}".rstrip())
        lines += [f"{' ' * name_width}{_GAP}{line}" for line in rest]
    return "\n".join(lines)


def _require_shape(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    if not columns:
        raise ValueError("a table needs at least one column")
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells where the table has {len(columns)} columns: {row!r}")


def _fitted(strips: list[_Strip], width: int) -> tuple[list[_Strip], list[int]]:
    """As many strips from the left as fit once their texts are shortened, and their widths."""
    natural = [strip.natural_width for strip in strips]
    for count in range(len(strips), 1, -1):
        widths = _shrunk(strips[:count], natural, width)
        if _total(widths) <= width:
            return strips[:count], widths
    return strips[:1], [min(natural[0], max(width, 1))]


def _shrunk(strips: list[_Strip], natural: list[int], width: int) -> list[int]:
    """Natural widths, no text wider than a cap: the widest cap that fits, or the shortest that is readable."""
    for cap in range(max(width, _SHORTEST_TEXT), _SHORTEST_TEXT, -1):
        widths = _capped(strips, natural, cap)
        if _total(widths) <= width:
            return widths
    return _capped(strips, natural, _SHORTEST_TEXT)


def _capped(strips: list[_Strip], natural: list[int], cap: int) -> list[int]:
    return [min(size, cap) if strip.is_text else size for strip, size in zip(strips, natural, strict=False)]


def _total(widths: list[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _line(cells: Sequence[str], strips: Sequence[_Strip], widths: Sequence[int]) -> str:
    return _GAP.join(
        padded(shortened(cell, column), column, right=not strip.is_text)
        for cell, strip, column in zip(cells, strips, widths, strict=True)
    ).rstrip()
