"""Bodies of requests, read with limits on time, size and inflated size."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from starlette.requests import ClientDisconnect, Request

from fleetridge_server.problems import ProblemError, unavailable

# A full sweep with some 600 points and its evidence is about 200 kB of JSON, and the 64 gpus of a node in CPX
# partitions fit in one call. Whoever sends more is told so and splits the list.
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
        """
        Count further bytes.

        Raises:
            ProblemError: 503, too many wait already.
        """
        if self.size_bytes + size_bytes > MAX_WAITING_BYTES:
            detail = "more reports arrive than can be stored at once; send the same again after Retry-After seconds"
            raise unavailable("busy", "Too many reports at once", detail)
        self.size_bytes += size_bytes

    @contextmanager
    def place(self) -> Iterator[Place]:
        """Place of one body, whose bytes are given back at the end."""
        place = Place(self)
        try:
            yield place
        finally:
            self.size_bytes -= place.size_bytes


@dataclass
class Place:
    """What one body takes of the waiting bodies."""

    waiting: WaitingBodies
    size_bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """Count further bytes of this body."""
        self.waiting.add(size_bytes)
        self.size_bytes += size_bytes


async def read_body(request: Request, place: Place) -> bytes:
    """
    Body as it was sent, still compressed.

    Raises:
        ProblemError: 413 too large, told before it is read where its length is announced; 415 an encoding that is not
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
    """
    Encoding of a body, `gzip` or `identity`.

    Raises:
        ProblemError: 415, any other.
    """
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
