"""
The body of a call that brings reports: its bytes, whether an item is plain JSON, and the hash of its content.

- Reading: bounded in size and time, inflated within the same bound.
- `is_plain`: whether `strict_json.check` surely lets a report pass. One that has no unknown fields holds nothing but
  what its models let pass, so that only its characters, the number of its values and lists of plain integers are left
  to look at. Nearly all reports are plain.
- `content_sha256`: the hash that `Report.content_sha256` gives, in a third of its time. Most of that time goes into
  writing some thousand values in order, which another writer does here. Where it spells numbers otherwise than the
  contract, they are written anew; what it may not know is left to the contract's own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import orjson
from starlette.requests import ClientDisconnect, Request

from fleetridge.report import Report
from fleetridge.report.field_types import WireModel
from fleetridge.strict_json import MAX_VALUES_OF_REPORT
from fleetridge_server.problems import ProblemError, unavailable

# A control character or a quotation mark in a text begins with the first, DELETE stands for itself, and numbers that
# are none are spelled so.
_SUSPICIOUS = (b"\\", b"\x7f", b"NaN", b"Infinity")

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def is_plain(text: bytes, report: Report) -> bool:
    """
    Whether `strict_json.check` surely lets an item pass.

    Args:
        text: JSON of the item as pydantic writes it, with numbers that are none as constants.
        report: made of the item, without unknown fields.
    """
    return (
        text.isascii()
        and not any(sign in text for sign in _SUSPICIOUS)
        and _most_values(text) <= MAX_VALUES_OF_REPORT
        and all(_INT64_MIN <= size <= _INT64_MAX for size in _unbounded(report))
    )


def has_unknown_fields(report: Report) -> bool:
    """Whether a report, or any part of it, has a field that this version does not know."""
    return any(part.__pydantic_extra__ for part in _parts(report))


def _parts(report: Report) -> Iterator[WireModel]:
    yield report
    yield from (report.run, report.agent, report.node, report.environment, report.evidence)
    yield from (part for part in (report.gpu, report.sweep) if part is not None)
    yield from report.run.roster or ()
    yield from report.evidence.phases
    yield from report.points
    yield from report.roofs


def _unbounded(report: Report) -> Iterator[int]:
    """Integers that may have any size."""
    if report.sweep is not None:
        yield from report.sweep.square
        yield from report.sweep.m_sweep


def _most_values(text: bytes) -> int:
    """Bound on the values of a JSON text: each stands first in it or in a container, or behind a comma."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


# Numbers of readings lie within 1e15; those below 1e-4 are where the spellings part: 0.00005 and 5e-6 here, 5e-05 and
# 5e-06 in the contract. Each has one of these in it.
_SMALL = (b"0.0000", b"e-")

_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?(?=[,\]}])")


def content_sha256(report: Report) -> bytes:
    """SHA-256 of the canonical JSON, 32 bytes."""
    text = None if has_unknown_fields(report) else _canonical(report)
    return report.content_sha256() if text is None else hashlib.sha256(text).digest()


def _canonical(report: Report) -> bytes | None:
    """The canonical JSON of a report without unknown fields; None where only the contract's writer can say."""
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


# A full sweep with some 600 points and its evidence is about 200 kB of JSON, and the 64 gpus of a node in CPX
# partitions fit in one call. Whoever sends more gets a 413 and splits the list.
MAX_BODY_BYTES = 16 * 1024**2

# Eight bodies of full size at once, as sent. Thousands of nodes that post in the same minute then wait for each other
# instead of filling the memory.
MAX_WAITING_BYTES = 8 * MAX_BODY_BYTES

# A body of full size over a line of 2.2 Mbit/s; whoever sends byte by byte gives up the place.
BODY_TIMEOUT_S = 60

_TOO_LARGE = f"a body may have {MAX_BODY_BYTES} bytes, also after inflating; split the list into several calls"


@dataclass
class WaitingBodies:
    """Bytes of all bodies that are being read or wait to be stored, against MAX_WAITING_BYTES."""

    size_bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """Count further bytes. Raises ProblemError: 503, too many wait already."""
        if self.size_bytes + size_bytes > MAX_WAITING_BYTES:
            detail = "more reports arrive than can be stored at once; send the same again after Retry-After seconds"
            raise unavailable("busy", "Too many reports at once", detail)
        self.size_bytes += size_bytes

    @contextmanager
    def place(self) -> Iterator[BodySlot]:
        """Place of one body, whose bytes are given back at the end."""
        place = BodySlot(self)
        try:
            yield place
        finally:
            self.size_bytes -= place.size_bytes


@dataclass
class BodySlot:
    """What one body takes of the waiting bodies."""

    waiting: WaitingBodies
    size_bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """Count further bytes of this body."""
        self.waiting.add(size_bytes)
        self.size_bytes += size_bytes


async def read_body(request: Request, place: BodySlot) -> bytes:
    """
    Body as it was sent, still compressed.

    Raises:
        ProblemError: 413 too large, raised before it is read where its length is announced; 415 an encoding that is not
            gzip; 408 too slow; 400 cut off; 503 too many at once.
    """
    content_encoding(request)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
        raise too_large()
    body = bytearray()
    try:
        with anyio.fail_after(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                if len(body) + len(chunk) > MAX_BODY_BYTES:
                    raise too_large()
                place.add(len(chunk))
                body += chunk
    except TimeoutError:
        detail = f"the body did not arrive within {BODY_TIMEOUT_S} s; send it again"
        raise ProblemError(408, "body_timeout", "The body came too slowly", detail) from None
    except ClientDisconnect:
        detail = "the connection ended within the body; nothing was stored, send it again"
        raise ProblemError(400, "body_cut_off", "The body was cut off", detail) from None
    return bytes(body)


def content_encoding(request: Request) -> str:
    """Encoding of a body, `gzip` or `identity`. Raises ProblemError: 415, any other."""
    encoding = request.headers.get("content-encoding", "").strip().lower() or "identity"
    encoding = "gzip" if encoding == "x-gzip" else encoding
    if encoding not in {"gzip", "identity"}:
        raise ProblemError(
            415,
            "unsupported_encoding",
            "Unknown content encoding",
            "send the body as it is, or with Content-Encoding: gzip",
            headers={"Accept-Encoding": "gzip"},
        )
    return encoding


def inflated(body: bytes, encoding: str) -> bytes:
    """
    Body as plain bytes; never more than MAX_BODY_BYTES are made of it.

    Raises:
        ProblemError: 413 inflates beyond the limit; 422 not what its encoding says.
    """
    if encoding == "identity":
        return body
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
            plain = stream.read(MAX_BODY_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        detail = "Content-Encoding says gzip, but the body is not gzip or was cut off; send it again"
        raise ProblemError(422, "not_gzip", "The body is not gzip", detail) from error
    if len(plain) > MAX_BODY_BYTES:
        raise too_large()
    return plain


def too_large(detail: str = _TOO_LARGE) -> ProblemError:
    """Error 413, upon which a sender of a list splits it."""
    return ProblemError(413, "body_too_large", "The body is too large", detail)
