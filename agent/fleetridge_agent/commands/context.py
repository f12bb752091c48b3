"""What a command is given by the program: where settings come from, where results go, and when to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from fleetridge.quantities import MINUS, MISSING
from fleetridge.terminal_text import ELLIPSIS
from fleetridge_agent.config.setting_types import Source
from fleetridge_agent.progress import Progress, ProgressLine
from fleetridge_agent.stop import Stop

# What the typographic signs of our own tables look like where there is ASCII only.
_IN_ASCII = str.maketrans({MINUS: "-", MISSING: "-", ELLIPSIS: "~", "×": "x", "·": "*", "≤": "<="})


@dataclass(frozen=True, slots=True)
class Context:
    """
    What one command is given.

    Attributes:
        stdout: for results.
        is_attended: whether a person watches.
        columns: of the terminal that results go to, None where they go elsewhere.
    """

    source: Source
    stdout: TextIO
    progress: ProgressLine
    stop: Stop
    state_dir: Path
    is_attended: bool
    columns: int | None

    def emit(self, text: str) -> None:
        """Write a result; signs that the output's encoding lacks are replaced or spelled out."""
        self.progress.clear()
        self.stdout.write(_encodable(text, self.stdout.encoding or "utf-8"))
        self.stdout.flush()

    def on_progress(self, prefix: str) -> Callable[[Progress], None]:
        """Function that shows each step of a sweep on the progress line, behind this prefix."""

        def show(progress: Progress) -> None:
            """Put a step on the progress line."""
            self.progress.show(f"{prefix}step {progress.step} of {progress.steps}: {progress.text}")

        return show


def _encodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII).encode(encoding, errors="backslashreplace").decode(encoding)
    return text
