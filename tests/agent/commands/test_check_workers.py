"""`fleetridge-agent check` with workers that are processes of their own and get into trouble."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fleetridge_agent.commands import check_by_measuring as preflight
from fleetridge_agent.worker import process_handle
from fleetridge_agent.worker.launcher import Launcher
from support.agent_commands import AgentNode, Ended, kept_states
from support.scripted_node import SCRIPTED_NODE, SCRIPTED_WORKER

Check = Callable[..., Ended]

# For a worker that hangs as soon as it can, and where another has to measure meanwhile on a loaded machine.
_SHORT_LIMIT_S, _LONGER_LIMIT_S = 1.0, 10.0


@pytest.fixture
def check(agent: Callable[..., Ended], fleet: AgentNode, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Checks a node whose workers get into some trouble, on behalf of a server that knows its gpus."""
    assert fleet.fleet is not None
    monkeypatch.setattr(process_handle, "GRACE_S", 0.2)

    def checked(*troubles: str, limit_s: float | None = None) -> Ended:
        program = (sys.executable, str(SCRIPTED_WORKER), *troubles)
        monkeypatch.setattr(preflight, "Launcher", partial(Launcher, program=program))
        if limit_s is not None:
            monkeypatch.setattr(preflight, "_LIMIT_S", limit_s)
        return agent("check", "--server", "https://f.example")

    return checked


def test_gpus_that_are_well_are_ok(check: Check, fleet: AgentNode) -> None:
    ended = check()

    assert (ended.code, ended.line) == (0, "ok: 2 gpus, GPU-a 0.0 % in pi bfloat16 burst")
    assert [report["run"]["kind"] for report in fleet.posted[0]] == ["check", "check"]


@pytest.mark.parametrize("trouble", ["hang", "hang_deaf"])
def test_gpus_that_hang_are_unknown_at_the_limit(check: Check, fleet: AgentNode, trouble: str) -> None:
    """The detail names no option that a check does not have."""
    ended = check(f"*={trouble}", limit_s=_SHORT_LIMIT_S)

    assert (ended.code, ended.line) == (2, "unknown: 2 of 2 gpus, GPU-a timed_out")
    assert kept_states(fleet) == {"GPU-a": "unknown", "GPU-b": "unknown"}
    assert "see whether the gpu hangs" in fleet.posted[0][0]["detail"]
    assert "--limit" not in ended.stderr


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("segfault", "crashed"),
        ("killed", "crashed"),
        ("babble", "crashed"),
        ("out_of_memory", "out_of_memory"),
        ("out_of_memory_unseen", "out_of_memory"),
    ],
)
def test_a_gpu_whose_process_dies_is_unknown_and_costs_no_other_its_verdict(
    check: Check, fleet: AgentNode, trouble: str, reason: str
) -> None:
    ended = check(f"GPU-a={trouble}")

    assert (ended.code, ended.line) == (2, f"unknown: 1 of 2 gpus, GPU-a {reason}")
    assert kept_states(fleet) == {"GPU-a": "unknown", "GPU-b": "ok"}


def test_a_slow_gpu_beside_one_that_hangs_makes_the_node_degraded(check: Check, fleet: AgentNode) -> None:
    """What is known to be slow is not hidden by what is not known."""
    ended = check("GPU-a=hang", "GPU-b=weak", limit_s=_LONGER_LIMIT_S)

    assert (ended.code, ended.line) == (1, "degraded: 1 of 2 gpus, GPU-b -12.5 % in pi bfloat16 burst")
    assert kept_states(fleet) == {"GPU-a": "unknown", "GPU-b": "degraded"}


def test_the_process_that_checks_never_imports_torch(tmp_path: Path) -> None:
    environ = {**os.environ, "FLEETRIDGE_STATE_DIR": str(tmp_path / "state"), "NODE_NAME": "n1"}
    baseline = str(tmp_path / "baseline.json")
    command = [sys.executable, str(SCRIPTED_NODE), "GPU-a", "*=none", "check", "--save-baseline", baseline]
    done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "ok: baseline of 1 gpu saved\n")
    assert "torch imported: False" in done.stderr
