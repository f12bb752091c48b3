"""The two widths that a chart is drawn for: text that is scaled with its chart is readable near one of them only."""

from __future__ import annotations

from enum import Enum


class Layout(Enum):
    """Width of a chart in user units; one unit is about one CSS pixel where it is shown at its natural size."""

    WIDE = 880
    NARROW = 360

    @property
    def units(self) -> int:
        """Width of the plot, in units of the SVG's own coordinates."""
        return self.value
