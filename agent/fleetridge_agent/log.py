"""
Progress and logs, on stderr only: results alone go to stdout.

People at a terminal get a progress line that rewrites itself and sentences; pods get one JSON object a line.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Literal, TextIO

from fleetridge.terminal_text import shortened, visible

LogFormat = Literal["text", "json"]

LOGGER = "fleetridge_agent"

# Back to the start of the line and erase it (ECMA-48); sent to terminals only.
_CLEAR_LINE = "\r\x1b[K"

_COLOUR_OF_LEVEL = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_COLOUR_END = "\x1b[0m"


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


def configure(stream: TextIO, *, log_format: LogFormat, environ: Mapping[str, str]) -> ProgressLine:
    """Send the agent's logs to a stream, in place of wherever they went before."""
    is_terminal = stream.isatty() and environ.get("TERM") != "dumb"
    progress = ProgressLine(stream, enabled=is_terminal and log_format == "text")
    handler = _Handler(stream, progress)
    # https://no-color.org: present and not empty means no colour.
    with_colour = is_terminal and not environ.get("NO_COLOR")
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter(with_colour=with_colour))
    logger = logging.getLogger(LOGGER)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return progress


class _Handler(logging.StreamHandler[TextIO]):
    """Takes the progress line away before it writes."""

    def __init__(self, stream: TextIO, progress: ProgressLine) -> None:
        super().__init__(stream)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.clear()
        super().emit(record)


class _TextFormatter(logging.Formatter):
    """Sentences, with the level before them where it is more than information."""

    def __init__(self, *, with_colour: bool) -> None:
        super().__init__()
        self._with_colour = with_colour

    def format(self, record: logging.LogRecord) -> str:
        text = visible(record.getMessage())
        if record.levelno >= logging.WARNING:
            text = f"{self._level(record)}: {text}"
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return text

    def _level(self, record: logging.LogRecord) -> str:
        word = record.levelname.lower()
        colour = _COLOUR_OF_LEVEL.get(record.levelno) if self._with_colour else None
        return f"{colour}{word}{_COLOUR_END}" if colour else word


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
