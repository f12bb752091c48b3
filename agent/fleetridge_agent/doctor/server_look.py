"""
The edge to the server: is it there, does it take this node's reports, and what time has it.

Nothing is stored by it: the list of reports that is posted is empty, which a server refuses once it has accepted
whoever sends it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx

from fleetridge.terminal_text import shortened, visible
from fleetridge_agent.deliver.client import Server
from fleetridge_agent.deliver.http import open_http, within

_TIMEOUTS = httpx.Timeout(connect=5.0, read=10.0, write=5.0, pool=5.0)

# Against headers that drip in a byte at a time and so never run into the read time-out.
_CALL_DEADLINE_S = 20.0

_LONGEST_CAUSE = 200

FailureKind = Literal["name", "tls", "proxy", "timeout", "connection"]


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Why there was no answer at all."""

    kind: FailureKind
    cause: str


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """
    What a server answered; None for a call that got no answer or was not made.

    Attributes:
        ready: status of `GET /readyz`, which is open to everybody.
        ingest: status of a post of no reports at all.
        read: status of a question for a list.
        location: where an answer sent us on to.
        date: its clock when it answered; asked_at, answered_at: ours.
    """

    unreachable: Unreachable | None = None
    ready: int | None = None
    ingest: int | None = None
    read: int | None = None
    location: str | None = None
    date: datetime | None = None
    asked_at: datetime | None = None
    answered_at: datetime | None = None


def looked_at(
    server: Server, *, now: Callable[[], datetime], transport: httpx.BaseTransport | None = None
) -> ServerFacts:
    """
    Look at a server.

    Raises:
        UsageError: certificates or a proxy cannot be used.
    """
    with open_http(server, timeouts=_TIMEOUTS, transport=transport) as http:
        try:
            asked_at = now()
            ready = _head_of(http, "GET", f"{server.url}/readyz")
            answered_at = now()
            ingest = _head_of(http, "POST", f"{server.url}/reports", json={"reports": []})
            read = _head_of(http, "GET", f"{server.url}/devices", params={"limit": 1})
        except (httpx.HTTPError, httpx.StreamError) as error:
            return ServerFacts(unreachable=Unreachable(_kind(error), _cause(error)))
    return ServerFacts(
        ready=ready.status_code,
        ingest=ingest.status_code,
        read=read.status_code,
        location=ready.headers.get("location"),
        date=_date(ready.headers.get("date")),
        asked_at=asked_at,
        answered_at=answered_at,
    )


def _head_of(http: httpx.Client, method: str, url: str, **arguments: Any) -> httpx.Response:  # noqa: ANN401 # of httpx
    """Status and headers of an answer; its body, which may be anything of any length, is not read."""

    def asked() -> httpx.Response:
        with http.stream(method, url, **arguments) as response:
            return response

    return within(_CALL_DEADLINE_S, asked)


def _kind(error: BaseException) -> FailureKind:
    if isinstance(error, httpx.ProxyError):
        return "proxy"
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "tls"
        if isinstance(cause, socket.gaierror):
            return "name"
        cause = cause.__cause__
    return "connection"


def _cause(error: Exception) -> str:
    return shortened(visible(str(error) or type(error).__name__), _LONGEST_CAUSE)


def _date(header: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(header or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
