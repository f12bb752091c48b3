"""What the server tells Prometheus of itself."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import make_url

from fleetridge_server.auth.tokens import new_token
from fleetridge_server.evaluation.schedule import Schedule
from fleetridge_server.intake import body as bodies
from fleetridge_server.telemetry.metrics import OwnMetrics
from support.app_client import AppClient, app_client
from support.evaluations import HOUR, a_fleet
from support.reports import make_report
from support.tokens import bearer, make_token

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database
    from support.databases import SqliteDatabases
    from support.evaluations import Fleet


def value(client: AppClient, name: str, *, token: str = "", **labels: str) -> float:
    """Value of one series; 0 where there is none."""
    answer = client.get("/metrics", headers=bearer(token) if token else None)
    assert answer.status_code == 200
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return 0.0


def outcomes(client: AppClient) -> dict[str, float]:
    names = ("created", "duplicate", "conflict", "rejected")
    return {name: value(client, "fleetridge_server_reports_total", outcome=name) for name in names}


def refused(client: AppClient, reason: str) -> float:
    return value(client, "fleetridge_server_report_calls_refused_total", reason=reason)


def test_reports_are_counted_by_what_became_of_them(client: AppClient) -> None:
    """In lists and one by one; nothing is counted that was not answered."""
    report = make_report()
    changed = {**report, "node": {**report["node"], "name": "other"}}
    assert outcomes(client) == {"created": 0, "duplicate": 0, "conflict": 0, "rejected": 0}

    listed = {"reports": [report, make_report(), {"no": "report"}]}
    assert client.post("/reports", json=listed).status_code == 200
    assert client.post("/reports", json=report).status_code == 200
    assert client.post("/reports", json=changed).status_code == 409
    assert client.post("/reports", json={"no": "report"}).status_code == 422

    assert outcomes(client) == {"created": 2, "duplicate": 1, "conflict": 1, "rejected": 2}
    assert refused(client, "invalid") == 0


def test_calls_that_are_refused_as_a_whole_are_counted_by_why(
    client: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows how many reports were in them."""
    monkeypatch.setattr(bodies, "MAX_BODY_BYTES", 1000)
    calls = [
        ("invalid", b"no JSON", {}),
        ("invalid", b'{"reports": []}', {}),
        ("invalid", b"no gzip", {"Content-Encoding": "gzip"}),
        ("too_large", b" " * 1001, {}),
        ("too_large", gzip.compress(b" " * 1001), {"Content-Encoding": "gzip"}),
        ("unknown_encoding", b"{}", {"Content-Encoding": "br"}),
    ]
    for _, content, headers in calls:
        assert client.post("/reports", content=content, headers=headers).status_code >= 400

    reasons = [reason for reason, _, _ in calls]
    assert {reason: refused(client, reason) for reason in reasons} == {
        reason: reasons.count(reason) for reason in reasons
    }
    assert set(outcomes(client).values()) == {0}


def test_strangers_and_guests_are_counted_apart(client: AppClient, database: Database) -> None:
    """By what they lack."""
    reader = make_token(database, "read")
    sent = [("unauthorized", bearer(new_token())), ("forbidden", bearer(reader))]
    for _, headers in sent:
        client.post("/reports", json=make_report(), headers=headers)

    name = "fleetridge_server_report_calls_refused_total"
    assert [value(client, name, token=reader, reason=reason) for reason, _ in sent] == [1, 1]


def test_a_database_that_is_gone_makes_calls_unavailable(sqlite_databases: SqliteDatabases) -> None:
    """The count is there once it is back."""
    url = sqlite_databases.create(migrated=True)
    file = Path(make_url(url).database or "")
    with app_client(url) as client:
        aside = file.rename(file.with_suffix(".aside"))
        assert client.post("/reports", json=make_report()).status_code == 503
        aside.rename(file)

        assert refused(client, "unavailable") == 1


def test_lag_is_told_of_new_reports_by_a_clock_put_right(client: AppClient) -> None:
    """A node whose clock is years ahead and that measured an hour ago by it is an hour late."""
    sent_at = datetime.now(timezone.utc) + timedelta(days=1000)
    measured = (sent_at - timedelta(hours=1)).isoformat()
    report = make_report(measured_from=measured, measured_to=measured)
    envelope = {"sent_at": sent_at.isoformat(), "reports": [report]}

    for _ in range(2):
        client.post("/reports", content=json.dumps(envelope))

    assert value(client, "fleetridge_server_report_lag_seconds_count") == 1
    assert value(client, "fleetridge_server_report_lag_seconds_sum") == pytest.approx(3600, abs=60)


def test_requests_are_counted_by_route_and_timed_with_the_database_s_part(client: AppClient) -> None:
    """By the template: names of nodes and gpus are no labels."""
    client.post("/reports", json=make_report(node__name="a-secret-name"))
    for path in ("/nodes/a-secret-name", "/nodes/another", "/nothing/here"):
        client.get(path)
    client.request("BREW", "/nodes")

    def count(name: str, **labels: str) -> float:
        return value(client, f"fleetridge_server_{name}", **labels)

    node = {"method": "GET", "route": "/nodes/{name:path}"}
    post = {"method": "POST", "route": "/reports"}
    assert count("requests_total", status="200", **node) == 1
    assert count("requests_total", status="404", **node) == 1
    assert count("requests_total", status="404", method="GET", route="") == 1
    assert count("requests_total", status="405", method="other", route="/nodes") == 1
    assert count("request_seconds_count", **post) == 1
    assert 0 < count("request_database_seconds_sum", **post) < count("request_seconds_sum", **post)
    assert count("requests_in_flight") == 1  # the one that asks
    assert "a-secret-name" not in client.get("/metrics").text


def test_connections_to_the_database_are_told(client: AppClient) -> None:
    """How many are held, of how many."""
    client.get("/devices")

    assert value(client, "fleetridge_server_pool_connections_max") > 20
    assert value(client, "fleetridge_server_pool_connections_in_use") == 0


def test_evaluations_are_timed(fleet: Fleet) -> None:
    """Each that this server makes."""
    own = OwnMetrics()
    fleet.store(a_fleet(gpus=4))
    fleet.now += HOUR
    schedule = Schedule(fleet.evaluator, on_evaluated=own.note_evaluation)

    done = schedule.follow_once()
    schedule.leadership.resign()

    assert len(done) == own.registry.get_sample_value("fleetridge_server_evaluation_seconds_count") == 1
