"""Calls to a server: connections that are safe to send a token over, and answers that are waited for within bounds."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError
from typing import TypeVar

import httpx

from fleetridge import __version__
from fleetridge_agent.deliver.client import Server
from fleetridge_agent.errors import UsageError

T = TypeVar("T")


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
