"""A chart within a page: drawn for both widths, of which the style sheet shows the one that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fleetridge_server.drawing.layout import Layout
from fleetridge_server.drawing.svg import element

Chart = TypeVar("Chart")


def inline_chart(draw: Callable[[Chart, Layout], str], chart: Chart) -> str:
    """
    Markup for a page that links `chart.css`: `inline_chart(roofline_svg, chart)`.

    What is not displayed is not read aloud either, so that nothing is said twice.
    """
    return element("div", {"class": "fr-figure"}, *(draw(chart, layout) for layout in Layout))
