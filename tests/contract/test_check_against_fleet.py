"""A check holds its gpu against what a real server answers, before and after that server has evaluated its fleet."""

from __future__ import annotations

from datetime import datetime, timezone

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


@pytest.mark.parametrize("is_evaluated", [False, True])
@pytest.mark.parametrize(
    ("peers", "pi_tflops", "state"), [(8, 800.0, "ok"), (8, 700.0, "degraded"), (3, 700.0, "unknown")]
)
def test_a_gpu_is_held_against_its_fleet(
    sqlite_databases: SqliteDatabases, is_evaluated: bool, peers: int, pi_tflops: float, state: State
) -> None:
    url = sqlite_databases.create(migrated=True)
    with app_client(url) as server:
        for number in range(peers):
            posted = server.post("/reports", content=report(f"GPU-{number}").canonical_json())
            assert posted.status_code == 201, posted.text
        if is_evaluated:
            assert server_cli.main(["evaluate", "--database-url", url]) == 0
        answer = server.get("/devices/NVIDIA%20H200/ridge", params={"limit": 1}).json()
    found = verdict_on(report("GPU-new", pi_tflops), bands_of(answer), at=datetime.now(timezone.utc))

    assert bool(answer["cohorts"]) is is_evaluated
    assert found.state == state
    assert [roof.peers for roof in found.roofs] == [peers, peers]
