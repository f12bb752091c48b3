"""The line that the log has of each request."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from fleetridge_server.http.answers import RequestWatch
from fleetridge_server.telemetry.metrics import OwnMetrics
from support.patience import PATIENCE_S, patient_post
from support.reports import make_report
from support.server_process import server_process
from support.tokens import bearer, make_token

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message, Receive, Scope, Send

    from fleetridge_server.db.database import Database
    from support.app_client import AppClient
    from support.databases import SqliteDatabases

ROOM = RequestWatch.__module__


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """What the lines of requests say to programs, as far as it is the same each time."""
    told = [dict(record.__dict__["fields"]) for record in caplog.records if record.name == ROOM]
    for line in told:
        assert 0 <= line.pop("database_ms") <= line.pop("duration_ms")
    return told


def test_a_request_is_one_line_with_its_route_and_what_became_of_reports(
    client: AppClient, caplog: pytest.LogCaptureFixture
) -> None:
    report = make_report(node__name="a-secret-name")
    with caplog.at_level(logging.INFO):
        client.post("/reports", json={"reports": [report, report, {}]})
        client.get("/nodes/a-secret-name?cluster=another-secret")
        client.get("/no/such/secret")

    common = {"token_id": None}
    assert fields(caplog) == [
        {
            **common,
            "method": "POST",
            "route": "/reports",
            "status": 200,
            "reports": {"created": 1, "duplicate": 1, "rejected": 1},
        },
        {**common, "method": "GET", "route": "/nodes/{name:path}", "status": 404},
        {**common, "method": "GET", "route": None, "status": 404},
    ]
    sentences = [record.getMessage() for record in caplog.records if record.name == ROOM]
    assert sentences[0].startswith("POST /reports 200 in ")
    assert sentences[0].endswith(" ms, 1 created, 1 duplicate, 1 rejected")
    assert not any("secret" in sentence for sentence in sentences)


def test_a_line_says_which_token_was_shown(
    client: AppClient, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """By its number in `token list`."""
    reader = make_token(database, "read")
    with caplog.at_level(logging.INFO):
        client.get("/devices", headers=bearer(reader))
        client.get("/devices")

    assert [(line["status"], line["token_id"]) for line in fields(caplog)] == [(200, 1), (401, None)]


def test_what_programs_ask_all_the_time_is_a_line_only_when_it_fails(
    client: AppClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for path in ("/livez", "/readyz", "/metrics"):
            assert client.get(path).status_code == 200
        client.post("/livez")

    assert [line["status"] for line in fields(caplog)] == [405]


def test_an_application_that_breaks_is_a_line_too(caplog: pytest.LogCaptureFixture) -> None:
    """With the status that its caller gets, and what broke goes on its way."""

    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ZeroDivisionError

    metrics = OwnMetrics()
    request: Scope = {"type": "http", "method": "GET", "path": "/devices"}
    with caplog.at_level(logging.INFO), pytest.raises(ZeroDivisionError):
        asyncio.run(RequestWatch(broken, metrics)(request, receive_nothing, send_nowhere))

    assert [line["status"] for line in fields(caplog)] == [500]
    assert metrics.registry.get_sample_value("fleetridge_server_requests_in_flight") == 0


async def receive_nothing() -> Message:
    raise NotImplementedError


async def send_nowhere(_message: Message) -> None:
    raise NotImplementedError


def test_every_line_of_a_server_is_an_object_where_that_was_asked_for(
    sqlite_databases: SqliteDatabases, tmp_path: Path
) -> None:
    """From the first to the last, uvicorn's included."""
    log = tmp_path / "log"
    url = sqlite_databases.create(migrated=True)
    with log.open("w") as stderr, server_process(url, "--log-format", "json", stderr=stderr) as server:
        address = server.address()
        patient_post(f"{address}/reports", json=make_report(), headers={"X-Request-ID": "abc-1"})
        server.stop()

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    [told] = [line for line in lines if line.get("route") == "/reports"]
    assert (told["request_id"], told["level"], told["status"], told["reports"]) == (
        "abc-1",
        "info",
        201,
        {"created": 1},
    )
    assert {"time", "level", "logger", "message"} <= set.intersection(*(set(line) for line in lines))
    assert {line["logger"].partition(".")[0] for line in lines} >= {"uvicorn", "fleetridge_server"}


def test_a_refusal_to_start_is_an_object_too(tmp_path: Path, sqlite_databases: SqliteDatabases) -> None:
    """The sentence that says what to do."""
    log = tmp_path / "log"
    url = sqlite_databases.create(migrated=False)
    with log.open("w") as stderr, server_process(url, "--log-format", "json", stderr=stderr) as server:
        code = server.process.wait(PATIENCE_S)

    told = json.loads(log.read_text().splitlines()[-1])
    assert code == 1
    assert "fleetridge-server migrate" in told["message"]
