"""Marks that stand for gpus: what hovering and focus show, and where they lead."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_server.drawing.gpu import DrawnGpu
from fleetridge_server.drawing.layout import Layout
from fleetridge_server.drawing.placing import fitted, width_of
from fleetridge_server.drawing.svg import element, escaped, words
from fleetridge_server.verdict.state import ACCUSING

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
    A mark with its words, a link where the gpu has a page.

    The tab key stops at what deserves a look; a fleet of healthy gpus must not stand between a reader and the next
    paragraph. All others can be focused by a script and are found in the table beside the chart.

    Args:
        gpu: who it stands for.
        says: what hovering and focus show.
        shape: markup.
        spot: where that is.
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
    """
    An address within the site.

    Raises:
        ValueError: it leads elsewhere, or may run a script.
    """
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
