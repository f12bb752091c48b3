"""
Log lines, with the request's id and without secrets: sentences for people, one JSON object a line for programs.

Nothing here logs a token or a password on purpose. What a library puts into an exception's text is not ours to say, so
that every line is looked through before it is written, its traceback included.
"""

import json
import logging
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any, Literal, TextIO, final
from uuid import uuid4

PREFIX_OF_TOKENS = "flr_"


HEADER = b"x-request-id"

# Whatever the usual proxies and tracing libraries send; nothing that could break a line of a log.
_WELL_FORMED = re.compile(rb"[0-9A-Za-z][0-9A-Za-z._:+/=-]{0,127}")

_current_id: ContextVar[str | None] = ContextVar("request_id", default=None)


def current_request_id() -> str | None:
    """Id of the request in hand; None where there is none."""
    return _current_id.get()


def enter_request(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """
    Id of a request by its headers, from here on the current one.

    It is not taken back: each request has a context of its own, and what the server logs of its end belongs to it.
    """
    sent = [value for name, value in headers if name == HEADER]
    is_usable = len(sent) == 1 and _WELL_FORMED.fullmatch(sent[0]) is not None
    request_id = sent[0].decode("ascii") if is_usable else uuid4().hex
    _current_id.set(request_id)
    return request_id


@contextmanager
def within_request(request_id: str | None) -> Iterator[None]:
    """Do the block for a request that came in elsewhere."""
    before = _current_id.set(request_id)
    try:
        yield
    finally:
        _current_id.reset(before)


LogFormat = Literal["auto", "text", "json"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s%(request)s: %(message)s"

# Kubernetes gives it to every container ("Accessing the API from a Pod").
_IN_POD = "KUBERNETES_SERVICE_HOST"

# Libraries that log what is no news: that a start had nothing to migrate, and each call with its address.
_TALKATIVE = ("alembic", "httpx")

_SECRETS = (
    # Also one that was cut off, of which the rest could be guessed; a few characters are no more than a name.
    (re.compile(PREFIX_OF_TOKENS + r"[0-9A-Za-z]{8,}"), f"{PREFIX_OF_TOKENS}…"),
    (re.compile(r"(://)[^/\s@]*:[^/\s]*@"), r"\1…@"),  # user and password in an address
    (re.compile(r"(?i)\b(authorization['\"]?\s*[:=,]\s*b?['\"]?(?:bearer|basic)\s+)[^\s'\"]+"), r"\1…"),
)

_log = logging.getLogger(__name__)


@contextmanager
def logs_to(stream: TextIO, *, log_format: LogFormat, environ: Mapping[str, str]) -> Iterator[None]:
    """
    Send all logs of this process to a stream during the block, warnings and what broke in a thread included.

    The format `auto` is JSON in a pod that nobody watches at a terminal, and text everywhere else.
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
