"""A whole server whose reports are taken in by processes of their own."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.app_client import app_client
from support.patience import PATIENCE_S, patient_post
from support.processes import children_of, is_running, until_gone
from support.reports import make_report
from support.server_process import server_process
from support.soak import stored_ids

if TYPE_CHECKING:
    from support.databases import SqliteDatabases
    from support.server_process import ServerProcess

pytestmark = pytest.mark.both_databases

THREADS = 8


def counted(metrics: str) -> dict[str, float]:
    """Reports by what became of them, where it became of any."""
    return {
        sample.labels["outcome"]: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "fleetridge_server_reports_total" and sample.value
    }


def node_reports(node: int) -> list[dict[str, Any]]:
    return [make_report(node__name=f"node-{node}", gpu__uuid=f"GPU-{node}-{gpu}", gpu__index=gpu) for gpu in range(4)]


def test_reports_that_come_at_once_are_all_there_once(database_url: str) -> None:
    """Those that are sent again, too; metrics count what became of each."""
    lists = [node_reports(node) for node in range(20)] * 2
    with app_client(database_url, intake_processes=2) as client, ThreadPoolExecutor(THREADS) as threads:
        answers = list(threads.map(lambda reports: client.post("/reports", json={"reports": reports}), lists))
        refused = client.post("/reports", content=b"no JSON")
        metrics = client.get("/metrics").text
    outcomes = Counter(result["outcome"] for answer in answers for result in answer.json()["results"])

    assert {answer.status_code for answer in answers} == {200}
    assert outcomes == {"created": 80, "duplicate": 80}
    assert refused.status_code == 422
    assert counted(metrics) == outcomes
    assert stored_ids(database_url) == sorted({report["report_id"] for reports in lists for report in reports})


def test_a_problem_of_a_process_of_its_own_has_the_request_s_id(sqlite_databases: SqliteDatabases) -> None:
    """Like one of the server's own."""
    url = sqlite_databases.create(migrated=True)
    with app_client(url, intake_processes=1) as client:
        answer = client.post("/reports", json={"no": "report"}, headers={"X-Request-Id": "abc"})

    assert (answer.status_code, answer.json()["request_id"]) == (422, "abc")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["outcome"] == "rejected"


# Who evaluates is a process, too, some seconds later.
WITHOUT_VERDICTS = {"FLEETRIDGE_SERVER_EVALUATE": "0"}


def posted(server: ServerProcess) -> list[int]:
    """Processes of a server that has taken a report."""
    address = server.address()
    before = children_of(server.process.pid)
    assert patient_post(f"{address}/reports", json=make_report()).status_code == 201
    after = children_of(server.process.pid)
    assert (len(before), len(after)) == (0, 1)
    return after


def test_a_server_that_ends_leaves_no_process_behind(sqlite_databases: SqliteDatabases) -> None:
    """It waits for them."""
    with server_process(sqlite_databases.create(migrated=True), environment=WITHOUT_VERDICTS) as server:
        children = posted(server)
        code = server.stop()

    assert code == 0
    assert not any(map(is_running, children))


def test_a_server_that_is_killed_leaves_no_process_behind(sqlite_databases: SqliteDatabases) -> None:
    """They notice, and have nobody left to answer."""
    with server_process(sqlite_databases.create(migrated=True), environment=WITHOUT_VERDICTS) as server:
        children = posted(server)
        server.process.kill()
        server.process.wait(PATIENCE_S)

        assert until_gone(*children)


def test_a_server_without_processes_of_its_own_takes_reports_itself(sqlite_databases: SqliteDatabases) -> None:
    """For a machine that has no room for them."""
    url = sqlite_databases.create(migrated=True)
    with server_process(url, environment={"FLEETRIDGE_SERVER_INTAKE_PROCESSES": "0"}) as server:
        answer = patient_post(f"{server.address()}/reports", json=make_report())
        children = children_of(server.process.pid)

    assert (answer.status_code, children) == (201, [])
