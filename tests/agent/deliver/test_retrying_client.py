"""Posting reports: what travels, how often, and how long the pauses are."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from fleetridge_agent.deliver.retrying_client import Client
from fleetridge_agent.deliver.server_address import Server, server_at
from fleetridge_agent.deliver.spool import Outgoing
from fleetridge_agent.errors import UsageError

TOKEN = "made-up"  # noqa: S105 # opens nothing

Reply = Callable[[httpx.Request], httpx.Response]


class Waits:
    """Notes the pauses instead of sleeping; says to stop after some of them."""

    def __init__(self, *, stop_after: int = 100) -> None:
        self.pauses: list[float] = []
        self._stop_after = stop_after

    def __call__(self, seconds: float) -> bool:
        """Note a pause; none is asked whether to stop."""
        if seconds:
            self.pauses.append(seconds)
        return len(self.pauses) >= self._stop_after


class Wire:
    """Answers with one reply after the other (the last one for ever) and keeps what was sent."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[httpx.Request] = []
        self._replies = list(replies)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return reply(request)

    @property
    def envelopes(self) -> list[dict[str, list[dict[str, str]]]]:
        """What was sent, in order."""
        return [json.loads(gzip.decompress(request.content)) for request in self.requests]


def outgoing(count: int = 1) -> list[Outgoing]:
    ids = [str(uuid4()) for _ in range(count)]
    return [Outgoing(report_id, b'{"report_id": "%s", "b":1,"a": 2}' % report_id.encode()) for report_id in ids]


def all_created(request: httpx.Request) -> httpx.Response:
    reports = json.loads(gzip.decompress(request.content))["reports"]
    return httpx.Response(
        200, json={"results": [{"report_id": r["report_id"], "outcome": "created", "errors": []} for r in reports]}
    )


def status(code: int, **headers: str) -> Reply:
    return lambda _: httpx.Response(code, headers={name.replace("_", "-"): value for name, value in headers.items()})


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


def client(
    wire: Wire, waits: Waits | None = None, *, url: str = "https://f.example/base", token: str | None = None
) -> Client:
    return Client(Server(url, token), wait=waits or Waits(), share=lambda: 1.0, transport=httpx.MockTransport(wire))


def test_a_nodes_reports_travel_in_one_call() -> None:
    wire, reports = Wire(all_created), outgoing(8)
    delivery = client(wire).deliver(reports)

    assert delivery.delivered == {report.report_id for report in reports}
    assert len(wire.requests) == 1
    assert str(wire.requests[0].url) == "https://f.example/base/reports"


def test_the_envelope_is_compressed_and_says_when_it_was_sent() -> None:
    wire = Wire(all_created)
    client(wire).deliver(outgoing())
    sent_at = datetime.fromisoformat(str(wire.envelopes[0]["sent_at"]))

    assert wire.requests[0].headers["content-encoding"] == "gzip"
    assert wire.requests[0].headers["content-type"] == "application/json"
    assert sent_at.utcoffset() == timedelta(0)


def test_a_report_is_the_same_bytes_on_every_try() -> None:
    wire, reports = Wire(status(503), unreachable, all_created), outgoing(2)
    client(wire).deliver(reports)
    bodies = [gzip.decompress(request.content).partition(b'"reports":')[2] for request in wire.requests]

    assert bodies == [b"[%s]}" % b",".join(report.body for report in reports)] * 3


def test_the_token_travels_as_a_bearer_token() -> None:
    wire = Wire(all_created)
    client(wire, token=TOKEN).deliver(outgoing())

    assert wire.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_without_a_token_none_is_made_up() -> None:
    wire = Wire(all_created)
    client(wire).deliver(outgoing())

    assert "authorization" not in wire.requests[0].headers


def test_a_server_that_recovers_gets_the_report_with_growing_pauses_between() -> None:
    wire, waits = Wire(status(503), status(502), unreachable, all_created), Waits()
    delivery = client(wire, waits).deliver(outgoing())

    assert len(delivery.delivered) == 1
    assert waits.pauses == [1.0, 2.0, 4.0]


def test_a_server_that_stays_away_costs_a_few_tries_only() -> None:
    wire, reports = Wire(unreachable), outgoing()
    delivery = client(wire).deliver(reports)

    assert len(wire.requests) == 4
    assert delivery.kept == {reports[0].report_id}
    assert not delivery.server_available
    assert "connection refused" in delivery.reason


@pytest.mark.parametrize("code", [301, 400, 401, 403, 404, 422])
def test_an_answer_that_needs_a_person_is_not_tried_again(code: int) -> None:
    wire = Wire(status(code, location="https://elsewhere.example/"))
    delivery = client(wire).deliver(outgoing())

    assert len(wire.requests) == 1
    assert len(delivery.kept) == 1
    assert not delivery.server_available


def test_retry_after_is_waited_for_and_spread() -> None:
    wire, waits = Wire(status(429, retry_after="20"), all_created), Waits()
    client(wire, waits).deliver(outgoing())

    assert waits.pauses == [21.0]


def test_retry_after_beyond_patience_ends_this_run() -> None:
    wire, waits = Wire(status(503, retry_after="3600"), all_created), Waits()
    delivery = client(wire, waits).deliver(outgoing())

    assert len(wire.requests) == 1
    assert not waits.pauses
    assert len(delivery.kept) == 1


def test_being_told_to_stop_ends_the_tries() -> None:
    wire = Wire(status(503))
    delivery = client(wire, Waits(stop_after=1)).deliver(outgoing())

    assert len(wire.requests) == 1
    assert len(delivery.kept) == 1


def test_only_what_is_still_open_is_posted_again() -> None:
    reports = outgoing(3)

    def first_only(request: httpx.Request) -> httpx.Response:
        answer = {"results": json.loads(all_created(request).content)["results"][:1]}
        return httpx.Response(200, json=answer)

    wire = Wire(first_only, all_created)
    delivery = client(wire).deliver(reports)

    assert delivery.delivered == {report.report_id for report in reports}
    assert [len(envelope["reports"]) for envelope in wire.envelopes] == [3, 2]


def test_a_list_that_is_too_large_is_halved_until_it_passes() -> None:
    def at_most_two(request: httpx.Request) -> httpx.Response:
        reports = json.loads(gzip.decompress(request.content))["reports"]
        return all_created(request) if len(reports) <= 2 else httpx.Response(413)

    wire, reports = Wire(at_most_two), outgoing(7)
    delivery = client(wire).deliver(reports)

    assert delivery.delivered == {report.report_id for report in reports}
    assert not delivery.kept


def test_one_report_that_is_too_large_does_not_hold_up_the_others() -> None:
    reports = outgoing(4)
    huge = reports[2].report_id

    def all_but_huge(request: httpx.Request) -> httpx.Response:
        return httpx.Response(413) if huge.encode() in gzip.decompress(request.content) else all_created(request)

    delivery = client(Wire(all_but_huge)).deliver(reports)

    assert delivery.kept == {huge}
    assert len(delivery.delivered) == 3


def test_when_the_first_half_fails_the_second_is_not_tried() -> None:
    wire, reports = Wire(status(413), status(401)), outgoing(4)
    delivery = client(wire).deliver(reports)

    assert len(wire.requests) == 2
    assert delivery.kept == {report.report_id for report in reports}


def _stumbles_over(*bad: str, code: int = 500) -> Reply:
    def reply(request: httpx.Request) -> httpx.Response:
        body = gzip.decompress(request.content)
        return httpx.Response(code) if any(report_id.encode() in body for report_id in bad) else all_created(request)

    return reply


@pytest.mark.parametrize("code", [400, 403, 422, 500])
@pytest.mark.parametrize("place", [0, 3, 7])
def test_one_report_that_a_server_stumbles_over_does_not_hold_up_the_others(code: int, place: int) -> None:
    reports = outgoing(8)
    bad = reports[place].report_id
    delivery = client(Wire(_stumbles_over(bad, code=code))).deliver(reports)

    assert delivery.kept == {bad}
    assert len(delivery.delivered) == 7
    assert delivery.server_available


def test_a_server_that_stumbles_over_everything_is_asked_a_few_times_more_only() -> None:
    wire, reports = Wire(status(500)), outgoing(8)
    delivery = client(wire).deliver(reports)

    assert [len(envelope["reports"]) for envelope in wire.envelopes] == [8, 8, 8, 8, 1, 1, 1]
    assert delivery.kept == {report.report_id for report in reports}
    assert not delivery.server_available


def test_a_server_that_goes_away_between_two_lone_reports_is_left_alone() -> None:
    wire, reports = Wire(status(400), all_created, unreachable), outgoing(8)
    delivery = client(wire).deliver(reports)

    assert len(wire.requests) == 3
    assert delivery.delivered == {reports[0].report_id}
    assert not delivery.server_available


def test_two_reports_that_no_server_takes_alone_end_the_run() -> None:
    delivery = client(Wire(status(403))).deliver(outgoing(2))

    assert len(delivery.kept) == 2
    assert not delivery.server_available


class SilentServer:
    """Answers nothing until it is told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Wait, then take everything."""
        self.asked.set()
        self.answers.wait()
        return all_created(request)


def test_a_silent_server_is_left_behind_once_the_program_is_to_end(tmp_path: Path) -> None:
    silent = SilentServer()
    transport = httpx.MockTransport(silent)
    on_disk = [replace(report, path=tmp_path / report.report_id) for report in outgoing(2)]
    delivery = Client(Server("https://f.example"), wait=lambda _: silent.asked.is_set(), transport=transport).deliver(
        on_disk
    )
    silent.answers.set()

    assert delivery.kept == {report.report_id for report in on_disk}
    assert not delivery.server_available
    assert "ends before" in delivery.reason


def test_a_report_in_memory_is_waited_for_even_then() -> None:
    silent = SilentServer()
    threading.Timer(1, silent.answers.set).start()  # longer than what is on disk would be waited for
    transport = httpx.MockTransport(silent)
    delivery = Client(Server("https://f.example"), wait=lambda _: True, transport=transport).deliver(outgoing())

    assert len(delivery.delivered) == 1


def test_an_answer_without_end_is_cut_off_and_believed_in_nothing() -> None:
    def endless(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=(b" " * 1024**2 for _ in range(64)))

    delivery = client(Wire(endless)).deliver(outgoing())

    assert len(delivery.kept) == 1


def test_a_broken_answer_is_tried_again() -> None:
    def broken(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": "gzip"}, content=b"this is no gzip")

    wire = Wire(broken, all_created)

    assert len(client(wire).deliver(outgoing()).delivered) == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:8000/", "https://f.example"]
)
def test_a_token_travels_over_tls_or_on_this_machine(url: str) -> None:
    assert server_at(url, token=TOKEN).token == TOKEN


@pytest.mark.parametrize(
    "url", ["http://f.example", "http://127.0.0.1.example", "http://localhost.example", "http://0.0.0.0"]
)
def test_a_token_never_travels_in_the_clear(url: str) -> None:
    with pytest.raises(UsageError, match="--allow-plain-http"):
        server_at(url, token=TOKEN)


def test_a_token_travels_in_the_clear_where_that_is_asked_for() -> None:
    assert server_at("http://f.example", token=TOKEN, allow_plain_http=True).token == TOKEN


def test_reports_without_a_token_may_travel_in_the_clear() -> None:
    assert server_at("http://f.example/", token=None).url == "http://f.example"


@pytest.mark.parametrize(
    "url",
    ["", "f.example", "ftp://f.example", "https://", "https://f.example/?a=1", "https://f.example/#x", "http://[::1"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--server"):
        server_at(url, token=None)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="--token-file") as refusal:
        server_at("https://user:hunter2@f.example", token=None)

    assert "hunter2" not in str(refusal.value)


def test_a_token_is_not_part_of_what_is_printed() -> None:
    assert TOKEN not in repr(Server("https://f.example", TOKEN))


def test_calls_to_this_machine_go_past_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")

    assert not Client(Server("http://127.0.0.1:9"), wait=Waits())._http._mounts
    assert Client(Server("https://f.example"), wait=Waits())._http._mounts


def test_certificates_that_cannot_be_read_are_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")

    with pytest.raises(UsageError, match="SSL_CERT_FILE"):
        Client(Server("https://f.example"), wait=Waits())
