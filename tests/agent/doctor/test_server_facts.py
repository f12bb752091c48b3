"""What is asked of a server, and why there is no answer."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable
from datetime import datetime, timezone

import httpx
import pytest

from fleetridge_agent.deliver.server import Server
from fleetridge_agent.doctor.facts import ServerFacts
from fleetridge_agent.doctor.server_probes import server_facts

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


def looked(reply: Callable[[httpx.Request], httpx.Response]) -> ServerFacts:
    server = Server("https://f.example/base", "made-up")
    return server_facts(server, now=lambda: NOW, transport=httpx.MockTransport(reply))


def test_nothing_is_stored_by_asking() -> None:
    seen: list[tuple[str, str, bytes]] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, str(request.url), request.content))
        return httpx.Response(200)

    looked(reply)
    (_, posted, _) = seen

    assert [(method, url) for method, url, _ in seen] == [
        ("GET", "https://f.example/base/readyz"),
        ("POST", "https://f.example/base/reports"),
        ("GET", "https://f.example/base/devices?limit=1"),
    ]
    assert json.loads(posted[2]) == {"reports": []}


def test_status_location_and_date_are_noted() -> None:
    headers = {"Date": "Fri, 20 Nov 2026 11:59:00 GMT", "Location": "https://other.example/"}
    facts = looked(lambda _: httpx.Response(307, headers=headers))

    assert (facts.ready, facts.ingest, facts.read, facts.location) == (307, 307, 307, "https://other.example/")
    assert facts.date == datetime(2026, 11, 20, 11, 59, tzinfo=timezone.utc)


@pytest.mark.parametrize("date", ["", "yesterday", "Fri, 99 Nov 2026 11:59:00 GMT"])
def test_a_date_that_cannot_be_read_is_none(date: str) -> None:
    assert looked(lambda _: httpx.Response(200, headers={"Date": date})).date is None


def raising(error: Exception, cause: Exception | None = None) -> Callable[[httpx.Request], httpx.Response]:
    def reply(_: httpx.Request) -> httpx.Response:
        raise error from cause

    return reply


@pytest.mark.parametrize(
    ("error", "cause", "kind"),
    [
        (httpx.ConnectError("no such name"), socket.gaierror(-2, "Name or service not known"), "name"),
        (httpx.ConnectError("self-signed"), ssl.SSLCertVerificationError("self-signed certificate"), "tls"),
        (httpx.ConnectError("wrong version"), ssl.SSLError("WRONG_VERSION_NUMBER"), "tls"),
        (httpx.ConnectError("refused"), OSError(111, "Connection refused"), "connection"),
        (httpx.ConnectTimeout("timed out"), None, "timeout"),
        (httpx.ReadTimeout("timed out"), None, "timeout"),
        (httpx.ProxyError("407 Proxy Authentication Required"), None, "proxy"),
        (httpx.RemoteProtocolError("bad answer"), None, "connection"),
    ],
)
def test_each_way_of_not_answering_is_told_apart(error: Exception, cause: Exception | None, kind: str) -> None:
    trouble = looked(raising(error, cause)).unreachable

    assert trouble is not None
    assert (trouble.kind, trouble.cause) == (kind, str(error))
