"""
Whether this node's reports can reach the server, and be taken there.

Nothing is stored by asking: the list of reports that is posted is empty, which a server refuses once it has accepted
whoever sends it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from fleetridge.quantities import age
from fleetridge.terminal_text import shortened, visible
from fleetridge_agent.deliver.http import open_http, within
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.doctor.facts import FailureKind, ServerFacts, Unreachable
from fleetridge_agent.doctor.probe import Finding, NodeState, not_checked, ok, problem, warning
from fleetridge_agent.errors import UsageError

_TIMEOUTS = httpx.Timeout(connect=5.0, read=10.0, write=5.0, pool=5.0)

# Against headers that drip in a byte at a time and so never run into the read time-out.
_CALL_DEADLINE_S = 20.0

_LONGEST_CAUSE = 200

_OK = 200
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _UNPROCESSABLE = 401, 403, 404, 422
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = range(500, 600)

# Clocks that are kept by NTP agree within a fraction of a second; from a minute on reports lie about their time.
_CLOCK_GAP = timedelta(minutes=1)

_LONGEST_ADDRESS = 200

_REMEDY_OF_FAILURE: Mapping[FailureKind, str] = {
    "name": "check the name in --server, and the name service of this node",
    "tls": "where the server's certificate is from an authority of your own, name its file with --ca-file; else renew "
    "the certificate, and check the clock",
    "proxy": "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or take the server out with NO_PROXY",
    "timeout": "check routes and firewalls between this node and the server",
    "connection": "check --server, and whether the server runs and a firewall lets this node in",
}


def server_facts(
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

    def headers() -> httpx.Response:
        """The answer, once its headers are there."""
        with http.stream(method, url, **arguments) as response:
            return response

    return within(_CALL_DEADLINE_S, headers)


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


def server(node: NodeState) -> Iterator[Finding]:
    """Whether the server is there and takes reports from here."""
    named, fault, facts = node.settings.server, node.settings.server_fault, None
    if named is not None:
        try:
            facts = node.server(named)
        except UsageError as error:
            fault = str(error)
    if named is None and fault is None:
        yield problem("server", "none is named", "give --server or set FLEETRIDGE_SERVER; `sweep` needs none")
    if named is None or facts is None:
        yield from _faulty(fault)
        return
    if facts.unreachable is not None:
        yield _unreachable(node, named, facts.unreachable)
        return
    yield from _there(named, facts)
    yield from _clock(facts)


def _faulty(sentence: str | None) -> Iterator[Finding]:
    """What is wrong with the settings of the server, if anything."""
    if sentence is not None:
        seen, _, remedy = sentence.partition("; ")
        yield problem("server", seen, remedy or "correct it")


def _unreachable(node: NodeState, named: Server, trouble: Unreachable) -> Finding:
    proxies = ", ".join(f"{proxy.name}={proxy.value}" for proxy in node.settings.foreign)
    by_way = f"; in force: {proxies}" if proxies and not named.is_loopback else ""
    seen = f"{named.url} cannot be reached: {trouble.cause}{by_way}"
    return problem("server", seen, _REMEDY_OF_FAILURE[trouble.kind])


def _there(named: Server, facts: ServerFacts) -> Iterator[Finding]:
    if facts.ready in _REDIRECTS:
        target = shortened(visible(facts.location or "an address that it does not name"), _LONGEST_ADDRESS)
        yield problem("server", f"it sends us on to {target}, which is not followed", "give the final address")
    elif facts.ready in _SERVER_ERRORS:
        yield problem("server", f"{named.url} is not ready (status {facts.ready})", "see the server's log")
    elif facts.ready != _OK:
        yield problem(
            "server", f"what answers at {named.url} is no fleetridge server (status {facts.ready})", "check --server"
        )
    else:
        yield ok("server", f"{named.url} is ready")
        yield from _accepted(named, facts)


def _accepted(named: Server, facts: ServerFacts) -> Iterator[Finding]:
    """Whether it takes reports: an empty list is refused for being empty, once its sender is accepted."""
    who = "with the token" if named.token else "without a token"
    if facts.ingest == _UNPROCESSABLE:
        yield ok("reports", f"the server takes them {who}")
    elif facts.ingest == _UNAUTHORIZED:
        remedy = "make one with `fleetridge-server token` and name its file with --token-file"
        seen = "it refuses the token: wrong, expired or revoked" if named.token else "it wants a token"
        yield problem("reports", seen, remedy)
    elif facts.ingest == _FORBIDDEN:
        yield problem(
            "reports",
            "the token may not report for this cluster and node",
            "check --cluster and --node, and that the token has the scope `ingest`",
        )
    else:
        yield problem("reports", f"posting ends with status {facts.ingest}", "see the server's log, or a proxy's")
    yield from _readable(facts)


def _readable(facts: ServerFacts) -> Iterator[Finding]:
    if facts.read == _OK:
        yield ok("band", "`check` may ask for it")
    elif facts.ingest == _UNPROCESSABLE:
        yield warning(
            "band",
            f"`check` may not ask for the fleet's band (status {facts.read})",
            "give the token the scope `read` beside `ingest`, or use `check --baseline`",
        )


def _clock(facts: ServerFacts) -> Iterator[Finding]:
    if facts.date is None or facts.asked_at is None or facts.answered_at is None:
        yield not_checked("clock", "the server's answer has no date")
        return
    ahead = facts.asked_at + (facts.answered_at - facts.asked_at) / 2 - facts.date
    if abs(ahead) <= _CLOCK_GAP:
        yield ok("clock", "agrees with the server's within a minute")
    else:
        way = "ahead of" if ahead > timedelta() else "behind"
        yield warning(
            "clock",
            f"{age(abs(ahead))} {way} the server's",
            "set it (`chronyc tracking`, `timedatectl`): reports carry wrong times, and certificates may not hold",
        )
