"""The id of a request: the caller's own where it is well-formed, in every answer, problem and line of the log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

HEADER = b"x-request-id"

# Whatever the usual proxies and tracing libraries send; nothing that could break a line of a log.
_WELL_FORMED = re.compile(rb"[0-9A-Za-z][0-9A-Za-z._:+/=-]{0,127}")

_current: ContextVar[str | None] = ContextVar("request_id", default=None)


def current_request_id() -> str | None:
    """Id of the request in hand; None where there is none."""
    return _current.get()


def enter_request(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """
    Id of a request by its headers, from here on the current one.

    It is not taken back: each request has a context of its own, and what the server logs of its end belongs to it.
    """
    sent = [value for name, value in headers if name == HEADER]
    is_usable = len(sent) == 1 and _WELL_FORMED.fullmatch(sent[0]) is not None
    request_id = sent[0].decode("ascii") if is_usable else uuid4().hex
    _current.set(request_id)
    return request_id


@contextmanager
def within_request(request_id: str | None) -> Iterator[None]:
    """Do the block for a request that came in elsewhere."""
    before = _current.set(request_id)
    try:
        yield
    finally:
        _current.reset(before)
