"""A key below a chart: what its marks mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetridge_server.drawing.layout import Layout
from fleetridge_server.drawing.placing import LINE, width_of
from fleetridge_server.drawing.svg import words

# Makes the sample around a place.
Sample = Callable[[float, float], str]

SWATCH = 22.0
_BETWEEN = 16.0
_LEFT = 8.0


@dataclass(frozen=True, slots=True)
class Key:
    """One entry."""

    drawn: Sample
    meaning: str


def legend(keys: Sequence[Key], top: float, layout: Layout) -> tuple[str, float]:
    """Entries in as many lines as they need, and where the space below them begins."""
    x, y, parts = _LEFT, top + LINE * 0.75, []
    for key in keys:
        width = SWATCH + width_of(key.meaning)
        if x > _LEFT and x + width > layout.units:
            x, y = _LEFT, y + LINE
        parts += [key.drawn(x + SWATCH / 2 - 2, y - 4), words(key.meaning, x + SWATCH, y, "fr-aside")]
        x += width + _BETWEEN
    return "".join(parts), y + LINE * 0.5 if keys else top
