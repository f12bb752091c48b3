"""The style sheet of charts: a page links it, a file of its own carries it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

_SHEET = "chart.css"


@cache
def chart_css() -> str:
    """The style sheet, for pages with inline charts."""
    return resources.files("fleetridge_server.drawing").joinpath(_SHEET).read_text(encoding="utf-8")


def standalone_svg(svg: str) -> str:
    """A drawn chart as a file: with its style, and nothing that it would have to fetch."""
    opened, closing, rest = svg.partition(">")
    return f"{opened}{closing}<style>{chart_css()}</style>{rest}"


@cache
def style_source() -> str:
    """Source expression by which a content security policy allows the style of such a file: `'sha256-…'`."""
    digest = hashlib.sha256(chart_css().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
