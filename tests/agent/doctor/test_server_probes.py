"""Whether reports can reach the server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleetridge_agent.doctor import server_probes
from fleetridge_agent.doctor.facts import FailureKind, ServerFacts, Unreachable
from fleetridge_agent.doctor.probe import Finding
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
