"""
Lines of the log, with the request's id and without secrets: sentences for people, one JSON object a line for programs.

Nothing here logs a token or a password on purpose. What a library puts into an exception's text is not ours to say,
so that every line is looked through before it is written, its traceback included.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Literal, TextIO, final

from fleetridge_server.access.request_id import current_request_id
from fleetridge_server.access.token_text import PREFIX

LogFormat = Literal["auto", "text", "json"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s%(request)s: %(message)s"

# Kubernetes gives it to every container ("Accessing the API from a Pod").
_IN_POD = "KUBERNETES_SERVICE_HOST"

# Libraries that tell of what is no news: that a start had nothing to migrate, and each call with its address.
_TALKATIVE = ("alembic", "httpx")

_SECRETS = (
    # Also one that was cut off, of which the rest could be guessed; a few characters are no more than a name.
    (re.compile(PREFIX + r"[0-9A-Za-z]{8,}"), f"{PREFIX}…"),
    (re.compile(r"(://)[^/\s@]*:[^/\s]*@"), r"\1…@"),  # user and password in an address
    (re.compile(r"(?i)\b(authorization['\"]?\s*[:=,]\s*b?['\"]?(?:bearer|basic)\s+)[^\s'\"]+"), r"\1…"),
)

_log = logging.getLogger(__name__)


@contextmanager
def logs_to(stream: TextIO, *, log_format: LogFormat, environ: Mapping[str, str]) -> Iterator[None]:
    """
    Send all logs of this process to a stream during the block, warnings and what broke in a thread included.

    Args:
        stream: where they go.
        log_format: `auto` is JSON in a pod that nobody watches at a terminal, and text everywhere else.
        environ: the variables of this process.
    """
    is_json = log_format == "json" or (log_format == "auto" and bool(environ.get(_IN_POD)) and not stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if is_json else LineFormatter())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    root, level, hook = logging.root, logging.root.level, threading.excepthook
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    threading.excepthook = _on_broken_thread
    try:
        yield
    finally:
        threading.excepthook = hook
        logging.captureWarnings(capture=False)
        root.setLevel(level)
        root.removeHandler(handler)


def is_logged_as_json() -> bool:
    """Whether lines of the log are JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.root.handlers)


def without_secrets(text: str) -> str:
    """Text in which tokens and passwords of addresses are blotted out."""
    for pattern, blot in _SECRETS:
        text = pattern.sub(blot, text)
    return text


@final
class LineFormatter(logging.Formatter):
    """Formats records for people."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Line of one record, and its traceback where it has one."""
        request_id = current_request_id()
        record.request = "" if request_id is None else f" [{request_id}]"
        return without_secrets(super().format(record))


@final
class JsonFormatter(logging.Formatter):
    """
    Formats records for programs, each as one object on a line of its own.

    Members are `time` (ISO 8601, UTC), `level`, `logger`, `message`, `request_id` where there is a request, `exception`
    where there is one, and the `fields` that whoever logs has given.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Object of one record."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        request_id = current_request_id()
        if request_id is not None:
            entry["request_id"] = without_secrets(request_id)
        if record.exc_info:
            entry["exception"] = without_secrets(self.formatException(record.exc_info))
        # In ASCII, so that half a character in a name cannot break the line and no terminal acts upon it.
        return json.dumps({**entry, **getattr(record, "fields", {})})


def _on_broken_thread(broken: threading.ExceptHookArgs) -> None:
    if broken.exc_value is not None:
        _log.error("a thread of this process broke", exc_info=broken.exc_value)
