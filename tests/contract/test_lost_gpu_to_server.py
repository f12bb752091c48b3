"""A node loses a gpu: what its agent finds and sends, and what the server says of it with that very run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fleetridge_agent.gpus import listing
from fleetridge_agent.readings.nvml import open_nvml
from fleetridge_server import cli as server_cli
from support.agent_commands import AgentNode, scripted_gpu, started
from support.app_client import AppClient, app_client
from support.databases import SqliteDatabases
from support.stub_nvml import StubCard, StubNvml, StubNvmlError

_UUIDS = tuple(f"GPU-{place}4fcf3a0" for place in range(8))
_RUN = ("run", "--server", "https://f.example", "--profile", "quick")


@pytest.fixture
def database(sqlite_databases: SqliteDatabases) -> str:
    """Address of an empty database."""
    return sqlite_databases.create(migrated=True)


@pytest.fixture
def server(database: str) -> Iterator[AppClient]:
    """The server."""
    with app_client(database) as started_server:
        yield started_server


@pytest.fixture
def node(server: AppClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentNode:
    """A node with eight gpus whose agent sends to that server."""

    def taken(request: httpx.Request) -> httpx.Response:
        answer = server.post("/reports", content=request.read(), headers=dict(request.headers))
        return httpx.Response(answer.status_code, content=answer.content)

    monkeypatch.setenv("FLEETRIDGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NODE_NAME", "n1")
    node = AgentNode(tmp_path / "state", {uuid: scripted_gpu(uuid) for uuid in _UUIDS}, server=taken)
    node.install(monkeypatch)
    return node


def test_a_gpu_that_is_lost_between_two_runs_is_missing_at_once(
    node: AgentNode,
    server: AppClient,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cards = [StubCard(uuid, f"00000000:{place:02X}:00.0", "NVIDIA H200") for place, uuid in enumerate(_UUIDS)]
    monkeypatch.setattr(listing, "nvml_or_none", lambda: open_nvml(StubNvml(*cards)))
    codes = [started(capsys, *_RUN).code for _ in range(2)]
    cards[3].handle_error = StubNvmlError(15, "GPU is lost")
    del node.devices[_UUIDS[3]]
    codes.append(started(capsys, *_RUN).code)
    assert server_cli.main(["evaluate", "--database-url", database]) == 0
    found = server.get("/nodes/n1").json()
    lost = server.get(f"/gpus/{_UUIDS[3]}").json()

    assert codes == [0, 0, 1]
    assert found["missing"] == [_UUIDS[3]]
    assert found["verdicts"]["missing"] == 1
    assert [gpu["reason"] for gpu in found["gpus"] if gpu["missing"]] == ["gpu_lost"]
    assert lost["reports"][0]["reason"] == "gpu_lost"
    assert (len(found["gpus"]), found["gpus"][3]["device"]) == (8, "H200")
