"""Posting to servers that answer in every way."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fleetridge_server.simulate.plan import PRODUCTS, Ask, plan_of
from fleetridge_server.simulate.posting import AddressError, Poster, PostingError, PostOutcome, token_in
from fleetridge_server.simulate.wire import node_reports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fleetridge.report import Report

UNTIL = datetime(2026, 11, 20, tzinfo=timezone.utc)
ADDRESS = "http://127.0.0.1:8000"


def some_reports(days: int = 2) -> list[Report]:
    return list(node_reports(plan_of(Ask(PRODUCTS["H200"], 8, days, 1, 0.0, UNTIL), []), 0))


def envelope_of(request: httpx.Request) -> Any:
    return json.loads(gzip.decompress(request.content))


def taken(request: httpx.Request, outcome: str = "created") -> httpx.Response:
    """Answer of a server that says the same of every report."""
    results = [
        {"report_id": report["report_id"], "outcome": outcome, "errors": []}
        for report in envelope_of(request)["reports"]
    ]
    return httpx.Response(200, json={"results": results})


def poster(
    answer: Callable[[httpx.Request], httpx.Response], *, token: str | None = None
) -> tuple[Poster, list[float]]:
    """A poster to a server that answers so, and the pauses that it makes."""
    pauses: list[float] = []
    return Poster(ADDRESS, token=token, transport=httpx.MockTransport(answer), pause=pauses.append), pauses


def test_a_nodes_reports_travel_in_few_calls_each_of_bounded_size() -> None:
    calls: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        return taken(request)

    posting, _ = poster(answer, token="fr_token")  # noqa: S106 # made up
    posted = posting.post(some_reports(days=10))

    assert posted == PostOutcome(stored=80, known=0)
    assert [len(envelope_of(call)["reports"]) for call in calls] == [64, 16]
    assert {call.headers["authorization"] for call in calls} == {"Bearer fr_token"}
    assert {str(call.url) for call in calls} == {f"{ADDRESS}/reports"}


def test_a_clock_that_is_ahead_is_ahead_in_the_envelope_too() -> None:
    sent: list[datetime] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(datetime.fromisoformat(envelope_of(request)["sent_at"]))
        return taken(request)

    posting, _ = poster(answer)
    posting.post(some_reports(1), ahead=timedelta(days=365))

    assert sent[0] > datetime.now(timezone.utc) + timedelta(days=364)


@pytest.mark.parametrize("outcome", ["duplicate", "conflict"])
def test_what_the_server_has_already_is_counted_apart(outcome: str) -> None:
    posting, _ = poster(lambda request: taken(request, outcome))
    assert posting.post(some_reports()) == PostOutcome(stored=0, known=16)


def test_a_busy_server_is_given_the_time_that_it_asks_for() -> None:
    answers = iter([httpx.Response(503, headers={"retry-after": "5"}), httpx.Response(429)])
    posting, pauses = poster(lambda request: next(answers, None) or taken(request))

    assert posting.post(some_reports()).stored == 16
    assert pauses == [6.0, 2.0]


def test_a_server_that_stays_busy_is_left_after_some_tries() -> None:
    posting, pauses = poster(lambda _: httpx.Response(503, text="busy"))
    with pytest.raises(PostingError, match="503"):
        posting.post(some_reports())
    assert 3 <= len(pauses) <= 10


def test_a_server_that_is_not_there_is_told_at_once_with_the_remedy() -> None:
    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    posting, pauses = poster(refuse)
    with pytest.raises(PostingError, match="fleetridge-server serve"):
        posting.post(some_reports())
    assert pauses == []


def test_a_server_that_restarts_meanwhile_is_waited_for() -> None:
    calls = iter(range(10))

    def answer(request: httpx.Request) -> httpx.Response:
        if next(calls) == 1:
            raise httpx.ConnectError("refused")
        return taken(request)

    posting, pauses = poster(answer)
    assert posting.post(some_reports(days=10)).stored == 80
    assert len(pauses) == 1


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (httpx.Response(401), "--token-file"),
        (httpx.Response(403), "--token-file"),
        (httpx.Response(302, headers={"location": "http://elsewhere/"}), "--server"),
        (httpx.Response(404, text="no such page\x1b[31m"), "404"),
        (httpx.Response(200, text="<html>welcome</html>"), "--server"),
        (httpx.Response(200, json={"results": []}), "older"),
    ],
)
def test_any_other_answer_ends_it_with_a_sentence(answer: httpx.Response, remedy: str) -> None:
    posting, pauses = poster(lambda _: answer)
    with pytest.raises(PostingError, match=remedy) as raised:
        posting.post(some_reports())
    assert pauses == []
    assert "\x1b" not in str(raised.value)


def test_a_rejected_report_is_told_with_its_fault() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        results = json.loads(taken(request, "rejected").content)["results"]
        results[0]["errors"] = [{"field": "points[0].ms", "problem": "unheard of"}]
        return httpx.Response(200, json={"results": results})

    posting, _ = poster(answer)
    with pytest.raises(PostingError, match="unheard of"):
        posting.post(some_reports())


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://user:secret@host", "http://host?x=1"]
)
def test_what_is_no_address_is_refused_and_no_password_repeated(address: str) -> None:
    with pytest.raises(AddressError) as raised:
        Poster(address)
    assert "--server" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_token_does_not_travel_in_the_clear() -> None:
    with pytest.raises(AddressError, match="https"):
        Poster("http://fleet.example", token="fr_token")  # noqa: S106 # made up
    Poster("https://fleet.example", token="fr_token")  # noqa: S106 # made up


def test_a_token_is_read_from_its_file_or_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" fr_token\n")
    (tmp_path / "empty").write_text("\n")
    assert token_in(tmp_path / "token") == "fr_token"
    for name in ("empty", "none"):
        with pytest.raises(AddressError, match=name):
            token_in(tmp_path / name)
