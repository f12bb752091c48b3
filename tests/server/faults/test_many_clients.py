"""Clients by the hundred that are slow, and processes that all send the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import anyio
import pytest

from fleetridge_server.intake import body as bodies
from support.load import Load, kept
from support.patience import PATIENCE_S, patient_client
from support.reports import make_report
from support.server_process import server_process
from support.slow_clients import connect_slowly, resident_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from support.app_client import AppClient
    from support.databases import Databases, SqliteDatabases

pytestmark = pytest.mark.both_databases

PROCESSES = 16
REPORTS = 24

# Two hundred clients that have sent a few bytes each may not cost more than what some hundred requests do.
MOST_GROWTH_BYTES = 64 * 1024**2

# Sends each list, in an order of its own, until it is told of every report that it is there; prints what it was told.
SENDER = """
import json, random, sys, time, urllib.error, urllib.request
address, path, seed = sys.argv[1:]
lists = json.load(open(path))
random.Random(seed).shuffle(lists)
told = []
for reports in lists:
    random.Random(seed).shuffle(reports)
    call = urllib.request.Request(address + "/reports", json.dumps({"reports": reports}).encode(), method="POST")
    while True:
        try:
            with urllib.request.urlopen(call, timeout=120) as answer:
                told += [result["outcome"] for result in json.load(answer)["results"]]
                break
        except urllib.error.HTTPError as error:
            told.append(str(error.code) + (" again" if error.headers["Retry-After"] else ""))
            if error.code != 503:
                break
            time.sleep(0.1)
print(json.dumps(told))
"""


def test_two_hundred_slow_clients_keep_nobody_waiting_and_cost_little(sqlite_databases: SqliteDatabases) -> None:
    """Half of them stop within the head, half within the body."""
    url = sqlite_databases.create(migrated=True)
    with server_process(url) as server, ExitStack() as stack:
        address = server.address()
        with patient_client(address) as client:
            first = [client.post("/reports", json=make_report()).status_code for _ in range(10)]
            before = resident_bytes(server.process.pid)
            for slow in connect_slowly(address):
                stack.enter_context(slow)
            answers = [client.post("/reports", json=make_report()).status_code for _ in range(10)]
            answers += [client.get(path).status_code for path in ("/readyz", "/devices", "/metrics")]
            growth = resident_bytes(server.process.pid) - before

    assert first == [201] * 10
    assert answers == [201] * 10 + [200] * 3
    assert growth < MOST_GROWTH_BYTES


def test_a_body_that_comes_too_slowly_is_cut_off(client: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a byte comes now and then; its place is free again."""
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_S", 0.2)

    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await anyio.sleep(0.01)

    answer = client.post("/reports", content=drip())

    assert (answer.status_code, answer.json()["code"]) == (408, "body_timeout")
    assert client.post("/reports", json=make_report()).status_code == 201


def test_sixteen_processes_that_send_the_same_store_each_report_once(databases: Databases, tmp_path: Path) -> None:
    """On PostgreSQL to two servers. One process is told of each that it is new, all others that it was there."""
    url = databases.create(migrated=True)
    reports = [make_report(gpu__uuid=f"GPU-{number}") for number in range(REPORTS)]
    (tmp_path / "lists.json").write_text(json.dumps([reports[start : start + 8] for start in range(0, REPORTS, 8)]))
    with ExitStack() as stack:
        count = 1 if url.startswith("sqlite") else 2
        servers = [stack.enter_context(server_process(url)) for _ in range(count)]
        addresses = [server.address() for server in servers]
        senders = [
            subprocess.Popen(
                [sys.executable, "-S", "-c", SENDER, addresses[number % count], tmp_path / "lists.json", str(number)],
                stdout=subprocess.PIPE,
            )
            for number in range(PROCESSES)
        ]
        told = Counter(word for sender in senders for word in json.loads(sender.communicate(timeout=PATIENCE_S)[0]))
    made = Load(sent={report["report_id"] for report in reports})
    made.acknowledged |= made.sent
    found = kept(url, made)
    databases.drop(url)

    assert (told["created"], told["duplicate"]) == (REPORTS, (PROCESSES - 1) * REPORTS)
    assert set(told) <= {"created", "duplicate", "503 again"}
    assert found.is_right
    assert found.stored == REPORTS
