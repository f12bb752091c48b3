"""
Lines of the log: with the request's id, and without secrets.

Nothing here logs a token or a password on purpose. What a library puts into an exception's text is not ours to say,
so that every line is looked through before it is written, its traceback included.
"""

from __future__ import annotations

import logging
import re
from typing import final

from fleetridge_server.access.request_id import current_request_id
from fleetridge_server.access.token_text import PREFIX

_FORMAT = "%(asctime)s %(levelname)s %(name)s%(request)s: %(message)s"

_SECRETS = (
    # Also one that was cut off, of which the rest could be guessed; a few characters are no more than a name.
    (re.compile(PREFIX + r"[0-9A-Za-z]{8,}"), f"{PREFIX}…"),
    (re.compile(r"(://)[^/\s@]*:[^/\s]*@"), r"\1…@"),  # user and password in an address
    (re.compile(r"(?i)\b(authorization['\"]?\s*[:=,]\s*b?['\"]?(?:bearer|basic)\s+)[^\s'\"]+"), r"\1…"),
)


def without_secrets(text: str) -> str:
    """Text in which tokens and passwords of addresses are blotted out."""
    for pattern, blot in _SECRETS:
        text = pattern.sub(blot, text)
    return text


@final
class LineFormatter(logging.Formatter):
    """Formats records so."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Line of one record, and its traceback where it has one."""
        request_id = current_request_id()
        record.request = "" if request_id is None else f" [{request_id}]"
        return without_secrets(super().format(record))
