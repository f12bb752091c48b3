"""`fleetridge-agent doctor`, on whatever machine the tests run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from fleetridge_agent.commands import doctor as doctor_command
from fleetridge_agent.doctor.facts import CudaFacts, NvmlFacts, ServerFacts, TorchFacts
from support.agent_commands import AgentNode, Ended
from support.nodes import CARDS, WELL_SERVER

Agent = Callable[..., Ended]

CPU = ("doctor", "--device", "cpu", "--server", "https://f.example")

FACTS = {
    "nvml": NvmlFacts(driver="580.159.04", cards=CARDS),
    "cuda": CudaFacts(newest_cuda=13000, gpus=2),
    "torch": TorchFacts(version="2.11.0+cu130", cuda="13.0"),
}


@pytest.fixture
def healthy(node: AgentNode, monkeypatch: pytest.MonkeyPatch) -> AgentNode:
    """Libraries and a server that are well, in place of this machine's."""

    def looked_at(*_: object, **__: object) -> ServerFacts:
        return WELL_SERVER

    monkeypatch.setattr(doctor_command, "ask", lambda subject, _: FACTS[subject])
    monkeypatch.setattr(doctor_command, "server_facts", looked_at)
    return node


@pytest.mark.usefixtures("healthy")
def test_nothing_in_the_way_ends_with_0(agent: Agent) -> None:
    ended = agent(*CPU)

    assert ended.code == 0
    assert "clock" in ended.stdout
    assert ended.stdout.endswith("Nothing stands in the way of measuring and delivering.\n")


@pytest.mark.usefixtures("healthy")
def test_something_in_the_way_ends_with_1(agent: Agent) -> None:
    ended = agent("doctor", "--device", "cpu")

    assert ended.code == 1
    assert ended.stdout.endswith("What stands in the way: server.\n")


@pytest.mark.usefixtures("healthy")
def test_json_is_one_object_with_the_same_exit_code(agent: Agent) -> None:
    well, unwell = agent(*CPU, "--json"), agent("doctor", "--device", "cpu", "--json")

    assert (well.code, json.loads(well.stdout)["well"]) == (0, True)
    assert (unwell.code, json.loads(unwell.stdout)["well"]) == (1, False)


@pytest.mark.usefixtures("healthy")
def test_the_json_of_a_sweep_is_no_business_of_the_doctors(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETRIDGE_JSON", "/nowhere/report.json")
    ended = agent(*CPU)

    assert ended.code == 0
    assert not ended.stdout.startswith("{")


def test_the_doctor_leaves_everything_as_it_was(agent: Agent, healthy: AgentNode) -> None:
    agent(*CPU)

    assert not healthy.state_dir.exists()
    assert healthy.posts == []


def test_a_misspelt_variable_is_told_by_every_command(
    agent: Agent, healthy: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETRIDGE_CLUSTR", "east")
    healthy.server = lambda _: httpx.Response(503)

    for command in (CPU, ("flush", "--server", "https://f.example"), ("check", "--max-age", "1h")):
        assert "warning: FLEETRIDGE_CLUSTR is no setting" in agent(*command).stderr


def test_the_doctor_itself_never_imports_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from fleetridge_agent.cli import main; "
        f"main(['doctor', '--state-dir', {str(tmp_path)!r}, '--server', 'http://127.0.0.1:9']); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "What stands in the way" in done.stdout
