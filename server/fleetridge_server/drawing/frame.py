"""The root element of a chart: its size, and what it is called and says for those who do not see it."""

from __future__ import annotations

from collections.abc import Iterable

from fleetridge.terminal_text import shortened, visible, wrapped
from fleetridge_server.drawing.layout import Layout
from fleetridge_server.drawing.placing import columns_in
from fleetridge_server.drawing.svg import element, escaped, words

_SVG = "http://www.w3.org/2000/svg"

_TITLE_SIZE = 15.0
_TITLE_LINE = 19.0
_MOST_TITLE_LINES = 2
_SIDE = 8.0
# Between a title and what it is the title of.
_BELOW_TITLE = 15.0
_EMPTY_HEIGHT = 84.0
# How much wider bold letters are.
_BOLD = 1.1


def framed(title: str, description: str, layout: Layout, height: float, parts: Iterable[str]) -> str:
    """
    A chart from its parts, `layout.units` wide and `height` high.

    Its role is `group`, as marks within it may be focused, and what is inside an `img` is hidden from screen readers.
    """
    return element(
        "svg",
        {
            "xmlns": _SVG,
            "class": f"fr-chart fr-{layout.name.lower()}",
            "viewBox": f"0 0 {layout.units} {round(height)}",
            "role": "group",
            "aria-label": title,
        },
        element("title", {}, escaped(title)),
        element("desc", {}, escaped(description)),
        *(
            words(line, _SIDE, _TITLE_LINE * (number + 1), "fr-title")
            for number, line in enumerate(_lines(title, layout))
        ),
        *parts,
    )


def empty(title: str, why: str, layout: Layout) -> str:
    """A chart without anything to draw says so."""
    return framed(title, why, layout, _EMPTY_HEIGHT, [words(why, _SIDE, top_of(title, layout) + 14, "fr-aside")])


def top_of(title: str, layout: Layout) -> float:
    """Where a chart begins below its title."""
    return _TITLE_LINE * len(_lines(title, layout)) + _BELOW_TITLE


def _lines(title: str, layout: Layout) -> list[str]:
    room = layout.units - 2 * _SIDE
    columns = columns_in(room, _TITLE_SIZE * _BOLD)
    lines = wrapped(visible(title), columns)
    if len(lines) <= _MOST_TITLE_LINES:
        return lines
    kept = lines[: _MOST_TITLE_LINES - 1]
    return [*kept, shortened(" ".join(lines[_MOST_TITLE_LINES - 1 :]), columns)]
