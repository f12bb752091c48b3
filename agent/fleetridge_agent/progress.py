"""How far a sweep is, and the line at the bottom of a terminal that says so, on stderr alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TextIO

from fleetridge.terminal_text import shortened, visible

# Back to the start of the line and erase it (ECMA-48); sent to terminals only.
_CLEAR_LINE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Progress:
    """What a sweep is about to do: step number `step` of `steps`, from 1."""

    step: int
    steps: int
    text: str


class ProgressLine:
    """One line at the bottom of a terminal that says what is going on; nothing at all anywhere else."""

    def __init__(self, stream: TextIO, *, enabled: bool) -> None:
        self._stream = stream
        self._enabled = enabled
        self._is_shown = False

    def show(self, text: str) -> None:
        """Put a text in place of the last one."""
        if not self._enabled:
            return
        room = shutil.get_terminal_size().columns - 1
        self._stream.write(_CLEAR_LINE + shortened(visible(text), room))
        self._stream.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Take the line away, before something else is written."""
        if self._is_shown:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._is_shown = False
