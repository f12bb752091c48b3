"""The agent's own client against the server's own application, on both databases: every report arrives exactly once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetridge.report import Report
from fleetridge_agent.deliver.dispatch import Tally, dispatch
from fleetridge_agent.deliver.retrying_client import Client
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.deliver.spool import Outgoing, Spool
from support.app_client import AppClient, app_client
from support.reports import make_report
from support.sweeps import swept

Network = Callable[[httpx.Request, Callable[[], httpx.Response]], httpx.Response]


def calm(_: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
    return answer()


class AppTransport(httpx.BaseTransport):
    """Carries the agent's calls into the application, by way of a network that a test may disturb."""

    def __init__(self, app: AppClient, network: Network) -> None:
        self._app = app
        self._network = network

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer of the application, if the network lets it through."""
        body = request.read()
        headers = dict(request.headers)

        def answer() -> httpx.Response:
            answer = self._app.request(request.method, request.url.path, content=body, headers=headers)
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        return self._network(request, answer)


@pytest.fixture
def app(database_url: str) -> Iterator[AppClient]:
    """The server."""
    with app_client(database_url) as started:
        yield started


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """An empty spool."""
    return Spool(tmp_path)


def delivered(app: AppClient, spool: Spool, fresh: list[Outgoing], *, network: Network = calm) -> Tally:
    server = Server("http://server")
    with Client(server, wait=lambda _: False, transport=AppTransport(app, network)) as client:
        return dispatch(client.deliver, spool, fresh, is_stopped=lambda: False)


def added(spool: Spool, *reports: dict[str, Any]) -> list[Outgoing]:
    return [spool.add(report["report_id"], json.dumps(report).encode()) for report in reports]


def stored(app: AppClient, report_id: str) -> Any:
    answer = app.get(f"/reports/{report_id}")
    assert answer.status_code == 200
    return answer.json()


def reports_of(app: AppClient, gpu: str) -> int:
    return len(app.get(f"/gpus/{gpu}").json()["reports"])


def test_a_nodes_reports_arrive_as_they_were_made(app: AppClient, spool: Spool) -> None:
    reports = [make_report(gpu__uuid=f"GPU-{number}") for number in range(1, 9)]
    tally = delivered(app, spool, added(spool, *reports))

    assert tally == Tally(delivered=8)
    assert [stored(app, report["report_id"]) for report in reports] == reports


def test_what_a_sweep_makes_is_taken_as_it_is(app: AppClient, spool: Spool) -> None:
    report = swept()
    tally = delivered(app, spool, [spool.add(str(report.report_id), report.canonical_json())])

    assert tally == Tally(delivered=1)
    assert Report.model_validate(stored(app, str(report.report_id))) == report


def test_a_report_that_is_there_already_counts_as_delivered(app: AppClient, spool: Spool) -> None:
    report = make_report()
    delivered(app, spool, added(spool, report))
    tally = delivered(app, spool, added(spool, report))

    assert tally == Tally(delivered=1)
    assert reports_of(app, report["gpu"]["uuid"]) == 1


def test_an_id_that_is_taken_is_a_dead_letter_and_changes_nothing(app: AppClient, spool: Spool) -> None:
    report = make_report()
    delivered(app, spool, added(spool, report))
    other = {**report, "measured_to": "2026-11-20T02:00:21Z"}
    tally = delivered(app, spool, added(spool, other))

    assert tally == Tally(dead=1)
    assert stored(app, report["report_id"]) == report
    assert [path.read_text() for path in spool.dead_letters.glob("*.txt")] == ["conflict: no reason given\n"]


def test_a_rejected_report_is_a_dead_letter_and_costs_its_neighbours_nothing(app: AppClient, spool: Spool) -> None:
    good, bad = make_report(gpu__uuid="GPU-good"), make_report(gpu__uuid="GPU-bad", outcome="splendid")
    tally = delivered(app, spool, added(spool, good, bad))
    (reason,) = [path.read_text() for path in spool.dead_letters.glob("*.txt")]

    assert tally == Tally(delivered=1, dead=1)
    assert stored(app, good["report_id"]) == good
    assert reason.startswith("rejected: outcome: ")


@pytest.mark.parametrize("lost", [1, 3])
def test_lost_answers_leave_every_report_stored_exactly_once(app: AppClient, spool: Spool, lost: int) -> None:
    calls: list[httpx.Request] = []

    def loses_answers(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        calls.append(request)
        answered = answer()
        if len(calls) <= lost:
            raise httpx.ReadError("connection reset", request=request)
        return answered

    reports = [make_report(gpu__uuid=f"GPU-{number}") for number in range(1, 3)]
    tally = delivered(app, spool, added(spool, *reports), network=loses_answers)

    assert tally == Tally(delivered=2)
    assert len(calls) == lost + 1
    assert [reports_of(app, f"GPU-{number}") for number in range(1, 3)] == [1, 1]


def test_a_run_whose_answers_are_all_lost_is_made_good_by_the_next(app: AppClient, spool: Spool) -> None:
    def loses_everything(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        answer()
        raise httpx.ReadTimeout("timed out", request=request)

    report = make_report()
    first = delivered(app, spool, added(spool, report), network=loses_everything)
    second = delivered(app, spool, [])

    assert first == Tally(waiting=1)
    assert second == Tally(delivered=1)
    assert reports_of(app, report["gpu"]["uuid"]) == 1


def test_a_call_that_is_too_large_for_the_server_is_split(app: AppClient, spool: Spool) -> None:
    padding = "x" * (6 * 1024**2)
    reports = [make_report(gpu__uuid=f"GPU-{number}", padding=padding) for number in range(1, 4)]
    tally = delivered(app, spool, added(spool, *reports))

    assert tally == Tally(delivered=3)


def test_reports_without_rates_are_delivered_too(app: AppClient, spool: Spool) -> None:
    report = make_report(outcome="failed", reason="nvml_unknown_error", gpu=None, points=[], roofs=[])
    tally = delivered(app, spool, added(spool, report))

    assert tally == Tally(delivered=1)
    assert stored(app, report["report_id"])["reason"] == "nvml_unknown_error"


def test_the_server_learns_how_wrong_the_nodes_clock_is_from_the_envelope(app: AppClient, spool: Spool) -> None:
    report = make_report(measured_from="2026-01-01T00:00:00Z", measured_to="2026-01-01T00:00:10Z")
    delivered(app, spool, added(spool, report))

    assert "sent_at" not in stored(app, report["report_id"])
