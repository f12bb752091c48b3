"""Whether reports can reach the server."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import httpx
import pytest

from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.doctor import server_probes
from fleetridge_agent.doctor.facts import FailureKind, ServerFacts, Unreachable
from fleetridge_agent.doctor.probe import Finding
from fleetridge_agent.doctor.server_probes import server_facts
from support.nodes import WELL_SERVER, SickNode, clock_off, severities

SERVER = ("--server", "https://f.example")


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.what: finding for finding in findings}


def test_a_server_that_takes_reports_is_well(node: SickNode) -> None:
    assert severities(node.findings(server_probes.server, *SERVER)) == [
        ("server", "ok"),
        ("reports", "ok"),
        ("band", "ok"),
        ("clock", "ok"),
    ]


def test_no_server_at_all_is_a_problem(node: SickNode) -> None:
    (found,) = node.findings(server_probes.server)

    assert (found.severity, found.remedy) == (
        "problem",
        "give --server or set FLEETRIDGE_SERVER; `sweep` needs none",
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("name", "name service"),
        ("tls", "--ca-file"),
        ("proxy", "HTTPS_PROXY"),
        ("timeout", "firewalls"),
        ("connection", "--server"),
    ],
)
def test_each_way_of_not_being_there_has_its_remedy(node: SickNode, kind: FailureKind, words: str) -> None:
    node.server = ServerFacts(unreachable=Unreachable(kind, "what the library says"))
    (found,) = node.findings(server_probes.server, *SERVER)

    assert found.severity == "problem"
    assert found.seen == "https://f.example cannot be reached: what the library says"
    assert words in found.remedy


def test_a_proxy_that_is_in_force_is_named_without_its_password(node: SickNode) -> None:
    node.environ["https_proxy"] = "http://user:secret@proxy.example:3128"
    node.server = ServerFacts(unreachable=Unreachable("timeout", "timed out"))
    (found,) = node.findings(server_probes.server, *SERVER)

    assert "in force: https_proxy=http://***@proxy.example:3128" in found.seen
    assert "secret" not in str(found)


def test_a_redirect_is_told_and_not_followed(node: SickNode) -> None:
    node.server = ServerFacts(ready=308, location="https://other.example/\x1b[2J")
    found = by_name(node.findings(server_probes.server, *SERVER))

    assert found["server"].seen == "it sends us on to https://other.example/\\x1b[2J, which is not followed"


@pytest.mark.parametrize(("status", "words"), [(503, "not ready"), (404, "no fleetridge server"), (204, "no fleet")])
def test_what_is_not_ready_is_a_problem(node: SickNode, status: int, words: str) -> None:
    node.server = ServerFacts(ready=status)
    found = by_name(node.findings(server_probes.server, *SERVER))

    assert words in found["server"].seen
    assert "reports" not in found


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "it wants a token"), (403, "may not report for this cluster"), (413, "status 413")],
)
def test_a_server_that_takes_no_reports_is_a_problem(node: SickNode, status: int, words: str) -> None:
    node.server = replace(WELL_SERVER, ingest=status, read=status)
    found = by_name(node.findings(server_probes.server, *SERVER))

    assert (found["reports"].severity, words in found["reports"].seen) == ("problem", True)
    assert "band" not in found


def test_a_bad_token_is_told_from_none(node: SickNode) -> None:
    node.with_file("token", "made-up")
    node.server = replace(WELL_SERVER, ingest=401, read=401)
    found = by_name(node.findings(server_probes.server, *SERVER, "--token-file", str(node.root / "token")))

    assert found["reports"].seen == "it refuses the token: wrong, expired or revoked"
    assert "made-up" not in str(found)


def test_a_token_that_may_not_read_costs_the_band_only(node: SickNode) -> None:
    node.server = replace(WELL_SERVER, read=403)
    found = by_name(node.findings(server_probes.server, *SERVER))

    assert (found["reports"].severity, found["band"].severity) == ("ok", "warning")
    assert "scope `read`" in found["band"].remedy


@pytest.mark.parametrize(
    ("seconds", "severity"), [(0, "ok"), (60, "ok"), (-60, "ok"), (61, "warning"), (-3600, "warning")]
)
def test_a_clock_that_is_a_minute_off_is_a_warning(node: SickNode, seconds: float, severity: str) -> None:
    node.server = clock_off(seconds)

    assert by_name(node.findings(server_probes.server, *SERVER))["clock"].severity == severity


def test_the_clock_says_which_way_it_is_off(node: SickNode) -> None:
    node.server = clock_off(3 * 86400)
    assert by_name(node.findings(server_probes.server, *SERVER))["clock"].seen == "3 d ahead of the server's"

    node.server = clock_off(-1800)
    assert by_name(node.findings(server_probes.server, *SERVER))["clock"].seen == "30 min behind the server's"


def test_an_answer_without_a_date_tells_nothing_of_the_clock(node: SickNode) -> None:
    node.server = replace(WELL_SERVER, date=None)

    assert by_name(node.findings(server_probes.server, *SERVER))["clock"].severity == "not checked"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--server", "ftp://f.example"), "--server: give an http or https address"),
        (("--server", "https://user:secret@f.example"), "must not hold a password"),
        ((*SERVER, "--token-file", "/nowhere/token"), "--token-file: cannot read"),
    ],
)
def test_a_server_that_cannot_even_be_named_is_a_problem(
    node: SickNode, arguments: tuple[str, ...], words: str
) -> None:
    (found,) = node.findings(server_probes.server, *arguments)

    assert (found.severity, words in found.seen) == ("problem", True)
    assert "secret" not in str(found)


def test_a_token_that_would_travel_in_the_clear_is_a_problem(node: SickNode, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("made-up")
    plain = ("--server", "http://f.example", "--token-file", str(tmp_path / "token"))

    assert severities(node.findings(server_probes.server, *plain)) == [("server", "problem")]
    assert ("server", "ok") in severities(node.findings(server_probes.server, *plain, "--allow-plain-http"))


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
