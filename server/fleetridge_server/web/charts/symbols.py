"""Marks of gpus: shapes by state, with what they say when they are pointed at."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetridge_server.engine.gpu_state import ACCUSING, State
from fleetridge_server.web.charts.axes import fitted, width_of
from fleetridge_server.web.charts.svg import Layout, element, escaped, path, words
from fleetridge_server.web.charts.svg import coordinate as c


@dataclass(frozen=True, slots=True)
class DrawnGpu:
    """
    Who a mark stands for.

    Attributes:
        label: short and unique within the chart, such as "n03 gpu 5".
        state: what its verdict says; None before the first evaluation.
        href: address of its page, a path that starts with "/"; None where the mark links nowhere.
        note: first reason, or other words for who looks closer; may be empty.
        highlighted: whether the chart is about this gpu, which is then drawn over its peers.
    """

    label: str
    state: State | None = None
    href: str | None = None
    note: str = ""
    highlighted: bool = False


Draw = Callable[[str, float, float, float], str]


def circle(kind: str, x: float, y: float, r: float) -> str:
    """A circle of a class."""
    return element("circle", {"class": kind, "cx": x, "cy": y, "r": r})


def triangle_down(kind: str, x: float, y: float, r: float) -> str:
    """A triangle that points down."""
    return path(kind, [f"M{c(x - r)} {c(y - 0.8 * r)}h{c(2 * r)}l{c(-r)} {c(1.8 * r)}z"])


def diamond(kind: str, x: float, y: float, r: float) -> str:
    """A diamond."""
    return path(kind, [f"M{c(x)} {c(y - r)}l{c(r)} {c(r)}l{c(-r)} {c(r)}l{c(-r)} {c(-r)}z"])


def square(kind: str, x: float, y: float, r: float) -> str:
    """A square."""
    return path(kind, [f"M{c(x - r)} {c(y - r)}h{c(2 * r)}v{c(2 * r)}h{c(-2 * r)}z"])


def cross(kind: str, x: float, y: float, r: float) -> str:
    """A cross of two strokes."""
    return path(kind, [f"M{c(x - r)} {c(y - r)}l{c(2 * r)} {c(2 * r)}m0 {c(-2 * r)}l{c(-2 * r)} {c(2 * r)}"])


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """How gpus in a state are drawn: a word for legends and listeners, and a size beside that of a healthy gpu."""

    word: str
    kind: str
    draw: Draw
    size: float = 1.0

    def drawn(self, x: float, y: float, radius: float) -> str:
        """The mark at a place."""
        return self.draw(self.kind, x, y, radius * self.size)


# What nothing is said against.
PEER = MarkStyle("gpu", "fr-peer", circle)

_LOOKS: dict[State | None, MarkStyle] = {
    "outlier": MarkStyle("outlier", "fr-accused", triangle_down, 1.6),
    "suspect": MarkStyle("suspect", "fr-suspect", triangle_down, 1.4),
    "drifted": MarkStyle("drifted", "fr-accused", diamond, 1.6),
    "implausible": MarkStyle("implausible", "fr-suspect", square, 1.1),
    "contended": MarkStyle("contended", "fr-unsure", square),
    "known": MarkStyle("known", "fr-unsure", triangle_down, 1.4),
    "stale": MarkStyle("stale", "fr-unsure", circle),
    "missing": MarkStyle("missing", "fr-unsure", cross),
    "unmeasured": MarkStyle("unmeasured", "fr-unsure", cross),
}


def mark_style(state: State | None) -> MarkStyle:
    """How a gpu in a state is drawn; healthy ones, and those that nothing can be said of, are plain."""
    return _LOOKS.get(state, PEER)


# Distance of a tip's baseline from the middle of its mark.
_TIP_RISE = 13.0
_MARGIN = 6.0
# Room above the baseline that a line of text takes.
_ASCENT = 12.0


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a mark is, on a chart of some width."""

    x: float
    y: float
    chart_width: float


def mark(gpu: DrawnGpu, says: str, shape: str, spot: Spot) -> str:
    """
    A mark with its words, a link where the gpu has a page; `says` is what hovering and focus show.

    The tab key stops at what deserves a look; a fleet of healthy gpus must not stand between a reader and the next
    paragraph. All others can be focused by a script and are found in the table beside the chart.
    """
    stops = is_noted(gpu)
    spoken = said_of(gpu, says)
    tip = _tip(spoken, spot) if stops else ""
    name, role = ("g", "img") if gpu.href is None else ("a", None)
    attributes: dict[str, str | float | None] = {
        "class": "fr-mark",
        "href": None if gpu.href is None else checked_href(gpu.href),
        "role": role,
        "tabindex": "0" if stops else "-1",
    }
    return element(name, attributes, element("title", {}, escaped(spoken)), shape, tip)


def focusable(says: str, shape: str, at: tuple[float, float], layout: Layout, *, stops: bool = True) -> str:
    """A mark that stands for no gpu of its own; the tab key stops there if `stops`."""
    tip = _tip(says, Spot(*at, layout.units)) if stops else ""
    attributes = {"class": "fr-mark", "role": "img", "tabindex": "0" if stops else "-1"}
    return element("g", attributes, element("title", {}, escaped(says)), shape, tip)


def is_noted(gpu: DrawnGpu) -> bool:
    """Whether a gpu is drawn over its peers: it is accused, or the chart is about it."""
    return gpu.highlighted or gpu.state in ACCUSING


def said_of(gpu: DrawnGpu, says: str) -> str:
    """Who a mark stands for and what is to be said."""
    state = None if gpu.state in (None, "ok") else str(gpu.state).replace("_", " ")
    return ", ".join(part for part in (f"{gpu.label}: {says}", state, gpu.note) if part)


def checked_href(href: str) -> str:
    """An address within the site. Raises ValueError: it leads elsewhere, or may run a script."""
    if not href.startswith("/") or href.startswith("//"):
        raise ValueError(f"a mark may not link to {href!r}: give a path that starts with one '/'")
    return href


def _tip(spoken: str, spot: Spot) -> str:
    """Words near a mark, moved so far that they stay on the chart."""
    room = spot.chart_width - 2 * _MARGIN
    content = fitted(spoken, room)
    width = width_of(content)
    x = min(max(spot.x - width / 2, _MARGIN), _MARGIN + room - width)
    above = spot.y - _TIP_RISE
    y = above if above > _ASCENT else spot.y + _TIP_RISE + _ASCENT
    return element("g", {"class": "fr-tip", "aria-hidden": "true"}, words(content, x, y))
