"""Calls to a server: safe connections, answers bounded in size and time, and one POST of a node's reports."""

from __future__ import annotations

import concurrent.futures
import gzip
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError
from datetime import datetime, timezone
from functools import partial
from typing import TypeVar, final

import httpx

from fleetridge import __version__
from fleetridge.quantities import MIB
from fleetridge_agent.deliver.answer import Answer
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.deliver.spool import Outgoing
from fleetridge_agent.errors import UsageError

T = TypeVar("T")

# The longest answer is one result with errors per report; a page of a captive portal is smaller still.
_ANSWER_MAX_BYTES = 8 * MIB

# Against an answer that drips in a byte at a time and so never runs into the read time-out.
_ANSWER_DEADLINE_S = 60.0

# Against headers that drip in, or a call that is taken a byte at a time; the largest call of ours needs a second or two
# on a slow line.
_CALL_DEADLINE_S = 120.0

# Once the program is to end, an answer under way gets this long, so that it is gone within a second of SIGTERM.
_FAREWELL_S = 0.5

# How often a call under way looks whether the program is to end.
_LOOK_S = 0.05

# Of every POST.
CONTENT_HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


class AbandonedError(Exception):
    """The program is to end, and the answer did not come in time."""


@final
class Poster:
    """
    Where reports are posted to.

    Args:
        http: connections with `headers` on every call; closed by whoever made them.
        url: address of the server.
        is_stopped: whether the program is to end.
    """

    def __init__(self, http: httpx.Client, url: str, *, is_stopped: Callable[[], bool]) -> None:
        self._http = http
        self._url = url
        self._is_stopped = is_stopped
        self._leave_at: float | None = None

    def post(self, reports: Sequence[Outgoing]) -> Answer:
        """
        Answer to one POST.

        Also once the program is to end, reports that live in memory only are waited for.

        Raises:
            AbandonedError: the program is to end and the server is slow; every report is on disk.
            httpx.HTTPError: the server cannot be reached, or its answer breaks off.
            httpx.StreamError: likewise.
        """
        answer, deadline = in_thread(partial(self._posted, reports)), time.monotonic() + _CALL_DEADLINE_S
        is_on_disk = all(report.path is not None for report in reports)
        while not concurrent.futures.wait([answer], timeout=_LOOK_S).done:
            if is_on_disk and self._is_time_to_leave():
                raise AbandonedError
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout(f"no whole answer within {_CALL_DEADLINE_S:g} s")
        return answer.result()

    def _is_time_to_leave(self) -> bool:
        if self._leave_at is None and self._is_stopped():
            self._leave_at = time.monotonic() + _FAREWELL_S
        return self._leave_at is not None and time.monotonic() > self._leave_at

    def _posted(self, reports: Sequence[Outgoing]) -> Answer:
        content = gzip.compress(_envelope(reports, sent_at=datetime.now(timezone.utc)), mtime=0)
        with self._http.stream("POST", f"{self._url}/reports", content=content) as response:
            headers = response.headers
            return Answer(
                status=response.status_code,
                body=b"".join(bounded(response.iter_bytes(), most_bytes=_ANSWER_MAX_BYTES, limit_s=_ANSWER_DEADLINE_S)),
                retry_after=headers.get("retry-after"),
                date=headers.get("date"),
                location=headers.get("location"),
            )


def open_http(
    server: Server,
    *,
    timeouts: httpx.Timeout,
    headers: Mapping[str, str] | None = None,
    transport: httpx.BaseTransport | None = None,
) -> httpx.Client:
    """
    Connections to a server: certificates are checked, redirects are not followed, proxies are those of the environment.

    Args:
        server: where to, and the token that every call shows.
        timeouts: of connecting, and of each reading and writing.
        headers: of every call, beside those that say who calls and what is understood.
        transport: stands in for the network in tests.

    Raises:
        UsageError: certificates or a proxy that an option or the environment names cannot be used.
    """
    try:
        return httpx.Client(
            transport=transport,
            timeout=timeouts,
            follow_redirects=False,
            # A proxy from the environment would carry calls to this very machine, token and all, somewhere else.
            trust_env=not server.is_loopback,
            verify=True if server.ca_file is None else ssl.create_default_context(cafile=server.ca_file),
            headers={**_headers(server.token), **(headers or {})},
        )
    except OSError as error:
        raise UsageError(
            f"certificates cannot be read ({error}); check --ca-file, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from error
    # A proxy's address may hold a password, so what httpx says of it is not repeated.
    except (ValueError, httpx.InvalidURL, ImportError) as error:
        raise UsageError(
            "the proxy cannot be used; give HTTPS_PROXY, HTTP_PROXY or ALL_PROXY an address such as "
            "http://proxy.example:3128, or take this server out with NO_PROXY"
        ) from error


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own, which ends with this process at the latest: nothing else ends a read."""
    answer: Future[T] = Future()
    threading.Thread(target=_resolve, args=(answer, call), daemon=True).start()
    return answer


def within(seconds: float, call: Callable[[], T]) -> T:
    """
    What a call gives, if it does so in time.

    A time-out of httpx begins anew with each byte, so that an answer whose headers drip in never runs into one.

    Raises:
        httpx.ReadTimeout: it takes longer, and is left to itself.
    """
    try:
        return in_thread(call).result(seconds)
    except NotDoneError as error:
        raise httpx.ReadTimeout(f"no whole answer within {seconds:g} s") from error


def bounded(chunks: Iterator[bytes], *, most_bytes: int, limit_s: float) -> Iterator[bytes]:
    """Chunks of an answer up to a size and a time, past which no honest answer goes on."""
    received_bytes, deadline = 0, time.monotonic() + limit_s
    for chunk in chunks:
        received_bytes += len(chunk)
        if received_bytes > most_bytes or time.monotonic() > deadline:
            return
        yield chunk


def _headers(token: str | None) -> dict[str, str]:
    headers = {"User-Agent": f"fleetridge-agent/{__version__}", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _resolve(answer: Future[T], call: Callable[[], T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001 # raised again where the answer is waited for
        answer.set_exception(error)


def _envelope(reports: Sequence[Outgoing], *, sent_at: datetime) -> bytes:
    """Envelope around the reports' own bytes, so that each is the same on every try."""
    bodies = b",".join(report.body for report in reports)
    return b'{"sent_at":"%s","reports":[%s]}' % (sent_at.isoformat().encode(), bodies)
