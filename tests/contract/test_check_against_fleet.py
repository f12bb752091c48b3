"""A check holds its gpu against what a real server answers, before and after that server has evaluated its fleet."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from fleetridge.report import Gpu, Report
from fleetridge_agent.check.bands import bands_of
from fleetridge_agent.check.rule import verdict_on
from fleetridge_agent.check.verdict import State
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_server import cli as server_cli
from support.app_client import app_client
from support.databases import SqliteDatabases
from support.scripted_device import GIB, ScriptedDevice, described
from support.sweeps import swept


def report(uuid: str, pi_tflops: float = 800.0) -> Report:
    gpu = Gpu(uuid=uuid, device="NVIDIA H200", architecture="sm_90", memory_bytes=141 * GIB, sm_count=132)
    device = ScriptedDevice(description=described(gpu=gpu), pi_tflops=pi_tflops)
    return swept(device, SweepOptions(profile="quick"))


@pytest.mark.parametrize(
    ("peers", "pi_tflops", "state"), [(8, 800.0, "ok"), (8, 700.0, "degraded"), (3, 700.0, "unknown")]
)
def test_a_gpu_is_held_against_its_fleet(
    sqlite_databases: SqliteDatabases, peers: int, pi_tflops: float, state: State
) -> None:
    before, answer = answers(sqlite_databases, peers)
    new = report("GPU-new", pi_tflops)
    found = verdict_on(new, bands_of(answer), at=datetime.now(timezone.utc))

    assert verdict_on(new, bands_of(before), at=datetime.now(timezone.utc)).state == "unknown"
    assert found.state == state
    assert [roof.peers for roof in found.roofs] == [peers, peers]


def answers(databases: SqliteDatabases, peers: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a server answers of a fleet, before and after it evaluated it."""
    url, asked = databases.create(migrated=True), {"limit": 1}
    with app_client(url) as server:
        for number in range(peers):
            posted = server.post("/reports", content=report(f"GPU-{number}").canonical_json())
            assert posted.status_code == 201, posted.text
        before = server.get("/devices/NVIDIA%20H200/ridge", params=asked).json()
        assert server_cli.main(["evaluate", "--database-url", url]) == 0
        return before, server.get("/devices/NVIDIA%20H200/ridge", params=asked).json()
