"""
The hash of a report's content, as `Report.content_sha256` gives it and in a third of its time.

Most of that time goes into writing some thousand values in order. Another writer does it here; where it spells numbers
otherwise than the contract, they are written anew, and what it may not know, or what it could spell otherwise still, is
left to the contract's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import orjson

from fleetridge.report import Report
from fleetridge_server.ingest.plain import has_unknown_fields

# Numbers of readings lie within 1e15; those below 1e-4 are where the spellings part: 0.00005 and 5e-6 here, 5e-05 and
# 5e-06 in the contract. Each has one of these in it.
_SMALL = (b"0.0000", b"e-")

_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?(?=[,\]}])")


def content_sha256(report: Report) -> bytes:
    """SHA-256 of the canonical JSON, 32 bytes."""
    text = None if has_unknown_fields(report) else _canonical(report)
    return report.content_sha256() if text is None else hashlib.sha256(text).digest()


def _canonical(report: Report) -> bytes | None:
    """The canonical JSON of a report without unknown fields; None where that cannot be told in short."""
    try:
        text = orjson.dumps(report.model_dump(mode="json", exclude_none=True), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits
        return None
    if b"\\" in text:  # then a quotation mark is not always the end of a text
        return None
    return _respelled(text)


def _respelled(text: bytes) -> bytes:
    """The same JSON with small numbers as the contract writes them."""
    for start, end in sorted(_small_numbers(text), reverse=True):
        text = text[:start] + repr(float(text[start:end])).encode() + text[end:]
    return text


def _small_numbers(text: bytes) -> Iterator[tuple[int, int]]:
    """Where numbers stand that may be spelled in two ways."""
    for mark in _SMALL:
        found = text.find(mark)
        while found >= 0:
            start = 1 + max(text.rfind(before, 0, found) for before in (b":", b",", b"["))
            number = _NUMBER.match(text, start)
            if number is not None and number.end() > found and text.count(b'"', 0, start) % 2 == 0:
                yield number.span()
            found = text.find(mark, found + len(mark))
