"""A node with two scripted gpus, and commands that run on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.agent_commands import AgentNode, Ended, scripted_gpu, started, told
from support.ridges import ridge_answer


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentNode:
    """A node with two gpus and a server that takes everything."""
    monkeypatch.setenv("FLEETRIDGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NODE_NAME", "n1")
    node = AgentNode(tmp_path / "state", {uuid: scripted_gpu(uuid) for uuid in ("GPU-a", "GPU-b")})
    node.install(monkeypatch)
    return node


@pytest.fixture
def agent(node: AgentNode, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command of the agent on that node."""
    assert node.devices
    return lambda *arguments: started(capsys, *arguments)


@pytest.fixture
def fleet(node: AgentNode) -> AgentNode:
    """The node, and a server that knows how fast its gpus should be."""
    node.fleet = told(ridge_answer())
    return node
