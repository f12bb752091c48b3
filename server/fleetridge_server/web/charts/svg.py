"""SVG text: elements, layouts, the frame and the legend of a chart, its style."""

import base64
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from typing import TypeVar

from fleetridge.terminal_text import shortened, visible, wrapped
from fleetridge_server.web.charts.axes import LINE, columns_in, width_of


class Layout(Enum):
    """Width of a chart in user units; one unit is about one CSS pixel where it is shown at its natural size."""

    WIDE = 880
    NARROW = 360

    @property
    def units(self) -> int:
        """Width of the plot, in units of the SVG's own coordinates."""
        return self.value


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})

Attributes = Mapping[str, str | float | None]


def escaped(words: str) -> str:
    """Words for text and attributes: markup escaped, and what XML forbids or a reader cannot see spelled out."""
    return visible(words).translate(_ESCAPES)


def coordinate(value: float) -> str:
    """
    A length to a tenth of a unit, which no eye tells from the exact one.

    Raises:
        ValueError: it is not finite, as something drawn was not.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value!r} cannot be drawn: leave out what was not measured")
    digits = f"{value:.1f}".removesuffix(".0")
    return "0" if digits == "-0" else digits


def element(name: str, attributes: Attributes, *children: str) -> str:
    """An element; children are markup already. Attributes that are None are left out."""
    opened = "".join(f' {key}="{_value(value)}"' for key, value in attributes.items() if value is not None)
    inner = "".join(children)
    return f"<{name}{opened}>{inner}</{name}>" if inner else f"<{name}{opened}/>"


def words(content: str, x: float, y: float, kind: str = "", anchor: str | None = None) -> str:
    """A line of text as it comes; its baseline starts at x, or has its middle or end there, as `anchor` says."""
    return element("text", {"class": kind or None, "x": x, "y": y, "text-anchor": anchor}, escaped(content))


def rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    """A rectangle of a class."""
    return element("rect", {"class": kind, "x": x, "y": y, "width": width, "height": height})


def path(kind: str, commands: Iterable[str]) -> str:
    """A path of a class; nothing where there are no commands."""
    drawn = "".join(commands)
    return element("path", {"class": kind, "d": drawn}) if drawn else ""


def group(kind: str, *children: str) -> str:
    """Children under one class; nothing where there are none."""
    inner = "".join(children)
    return element("g", {"class": kind}, inner) if inner else ""


def titled(says: str, *shapes: str) -> str:
    """Shapes that say something when they are pointed at, and in no other way."""
    return element("g", {}, element("title", {}, escaped(says)), *shapes)


def _value(value: str | float | None) -> str:
    return escaped(value) if isinstance(value, str) else coordinate(value or 0.0)


Chart = TypeVar("Chart")


def inline_chart(draw: Callable[[Chart, Layout], str], chart: Chart) -> str:
    """
    Markup for a page that links `chart.css`: `inline_chart(roofline_svg, chart)`.

    What is not displayed is not read aloud either, so that nothing is said twice.
    """
    return element("div", {"class": "fr-figure"}, *(draw(chart, layout) for layout in Layout))


_SHEET = "chart.css"


@cache
def chart_css() -> str:
    """The style sheet, for pages with inline charts."""
    return resources.files("fleetridge_server.web.charts").joinpath(_SHEET).read_text(encoding="utf-8")


def standalone_svg(svg: str) -> str:
    """A drawn chart as a file: with its style, and nothing that it would have to fetch."""
    opened, closing, rest = svg.partition(">")
    return f"{opened}{closing}<style>{chart_css()}</style>{rest}"


@cache
def style_source() -> str:
    """Source expression by which a content security policy allows the style of such a file: `'sha256-…'`."""
    digest = hashlib.sha256(chart_css().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


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
    A chart from its parts, `charts.svg.units` wide and `height` high.

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


# Makes the sample around a place.
Sample = Callable[[float, float], str]


def upright(kind: str) -> Sample:
    """Sample of a vertical line of a class."""
    return lambda x, y: path(kind, [f"M{coordinate(x)} {coordinate(y - 7)}v14"])


def bar(x: float, y: float) -> str:
    """Sample of a bar that counts gpus."""
    return path("fr-bar", [f"M{coordinate(x - 4)} {coordinate(y + 5)}v-10h8v10z"])


SWATCH = 22.0
_BETWEEN = 16.0
_LEFT = 8.0


@dataclass(frozen=True, slots=True)
class LegendKey:
    """One entry."""

    drawn: Sample
    meaning: str


def legend(keys: Sequence[LegendKey], top: float, layout: Layout) -> tuple[str, float]:
    """Entries in as many lines as they need, and where the space below them begins."""
    x, y, parts = _LEFT, top + LINE * 0.75, []
    for key in keys:
        width = SWATCH + width_of(key.meaning)
        if x > _LEFT and x + width > layout.units:
            x, y = _LEFT, y + LINE
        parts += [key.drawn(x + SWATCH / 2 - 2, y - 4), words(key.meaning, x + SWATCH, y, "fr-aside")]
        x += width + _BETWEEN
    return "".join(parts), y + LINE * 0.5 if keys else top
