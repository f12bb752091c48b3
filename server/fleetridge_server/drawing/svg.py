"""SVG as text: elements, coordinates and escaped words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from fleetridge.terminal_text import visible

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
    """
    An element; children are markup already. Attributes that are None are left out.

    An underscore in the name of an attribute stands for a hyphen, and a trailing one is dropped (`class_`).
    """
    opened = "".join(f' {_attribute(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None)
    inner = "".join(children)
    return f"<{name}{opened}>{inner}</{name}>" if inner else f"<{name}{opened}/>"


def words(content: str, x: float, y: float, kind: str = "", anchor: str | None = None) -> str:
    """
    A line of text.

    Args:
        content: what it says, as it comes.
        x: where its baseline starts, or has its middle or end, as `anchor` says.
        y: of its baseline.
        kind: class of the style sheet.
        anchor: `middle` or `end`.
    """
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


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: str | float | None) -> str:
    return escaped(value) if isinstance(value, str) else coordinate(value or 0.0)
