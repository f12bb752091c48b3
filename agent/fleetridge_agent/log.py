"""
Logs, on stderr only: results alone go to stdout.

People get sentences; pods get one JSON object a line, also where it was not us who had something to say.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import Literal, TextIO

from fleetridge.terminal_text import visible
from fleetridge_agent.progress import ProgressLine

LogFormat = Literal["auto", "text", "json"]

LOGGER = "fleetridge_agent"

# Kubernetes gives it to every container ("Accessing the API from a Pod").
_IN_POD = "KUBERNETES_SERVICE_HOST"

_COLOUR_OF_LEVEL = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_COLOUR_END = "\x1b[0m"


def configure(stream: TextIO, *, log_format: LogFormat, environ: Mapping[str, str]) -> ProgressLine:
    """
    Send the agent's logs to a stream, in place of wherever they went before.

    Args:
        stream: where they go from now on.
        log_format: `auto` is JSON in a pod that nobody watches at a terminal, and text everywhere else.
        environ: the variables of this process.
    """
    is_json = log_format == "json" or (log_format == "auto" and bool(environ.get(_IN_POD)) and not stream.isatty())
    is_terminal = stream.isatty() and environ.get("TERM") != "dumb"
    progress = ProgressLine(stream, enabled=is_terminal and not is_json)
    handler = _Handler(stream, progress)
    # https://no-color.org: present and not empty means no colour.
    with_colour = is_terminal and not environ.get("NO_COLOR")
    handler.setFormatter(_JsonFormatter() if is_json else _TextFormatter(with_colour=with_colour))
    logger = logging.getLogger(LOGGER)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return progress


@contextmanager
def stray_output_logged() -> Iterator[None]:
    """
    Log what would go to stderr as it is: warnings and logs of libraries, and what broke where nobody could catch it.

    What libraries merely inform of is left out.
    """
    relay = _Relay(logging.WARNING)
    before = (threading.excepthook, sys.unraisablehook)
    logging.root.addHandler(relay)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _log_warning
            threading.excepthook = lambda stray: _log_stray(stray.exc_value, "a thread of this process broke")
            sys.unraisablehook = lambda stray: _log_stray(stray.exc_value, "something broke while it was cleared away")
            yield
    finally:
        threading.excepthook, sys.unraisablehook = before
        logging.root.removeHandler(relay)


def _log_warning(  # as `warnings` calls it
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001 # there is one log
    line: str | None = None,  # noqa: ARG001 # the place is enough
) -> None:
    logging.getLogger(LOGGER).warning("%s: %s (%s:%d)", category.__name__, message, filename, lineno)


def _log_stray(error: BaseException | None, text: str) -> None:
    logging.getLogger(LOGGER).error(text, exc_info=error)


class _Relay(logging.Handler):
    """Hands records of other loggers to wherever the agent's go."""

    def emit(self, record: logging.LogRecord) -> None:
        """Have every handler of the agent's log handle the record."""
        for handler in logging.getLogger(LOGGER).handlers:
            handler.handle(record)


class _Handler(logging.StreamHandler[TextIO]):
    """Takes the progress line away before it writes."""

    def __init__(self, stream: TextIO, progress: ProgressLine) -> None:
        super().__init__(stream)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Clear the progress line, then write the record."""
        self._progress.clear()
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 # the name that `logging` calls
        """Say in a line of our own format that a record makes no line, and nothing where nobody reads any more."""
        if isinstance(sys.exc_info()[1], OSError):
            return
        said = f"a line of the log could not be put together: {record.msg!r}"
        broken = logging.LogRecord(record.name, logging.ERROR, record.pathname, record.lineno, said, None, None)
        with suppress(Exception):
            self.stream.write(self.format(broken) + "\n")


class _TextFormatter(logging.Formatter):
    """Sentences, with the level before them where it is more than information."""

    def __init__(self, *, with_colour: bool) -> None:
        super().__init__()
        self._with_colour = with_colour

    def format(self, record: logging.LogRecord) -> str:
        """Level where it matters, message, and an indented traceback."""
        text = visible(record.getMessage())
        if record.levelno >= logging.WARNING:
            text = f"{self._level(record)}: {text}"
        if record.exc_info:
            text = "\n".join([text, *_indented(self.formatException(record.exc_info))])
        return text

    def _level(self, record: logging.LogRecord) -> str:
        word = record.levelname.lower()
        colour = _COLOUR_OF_LEVEL.get(record.levelno) if self._with_colour else None
        return f"{colour}{word}{_COLOUR_END}" if colour else word


def _indented(trace: str) -> Iterator[str]:
    """Lines of a traceback, set off so that none of them can pass for a line of the log."""
    return (f"  {visible(line)}" for line in trace.splitlines())


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message and, where there is one, `exception`."""
        entry = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # In ASCII, so that half a character in a name cannot break the line and no terminal acts upon it.
        return json.dumps(entry)
