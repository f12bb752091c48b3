"""`fleetridge-agent run --wait` on a node where somebody works."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fleetridge_agent.busy import admission
from fleetridge_agent.readings.nvml import open_nvml
from support.agent_commands import AgentNode, Ended
from support.stub_nvml import StubCard, StubNvml

Agent = Callable[..., Ended]

RUN = ("run", "--server", "https://f.example", "--square", "512", "--m-sweep", "1")


@pytest.fixture
def somebody_on_a(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a process on the first gpu, which at each look does what it is told, and is gone after the last."""

    def put(*at_looks: Callable[[], object]) -> None:
        left = list(at_looks)

        def listed() -> list[Any]:
            if not left:
                return []
            left.pop(0)()
            return [SimpleNamespace(pid=1, usedGpuMemory=100)]

        cards = [
            StubCard("GPU-a", "0000:01:00.0", "NVIDIA H200", {"ComputeRunningProcesses": listed}),
            StubCard("GPU-b", "0000:02:00.0", "NVIDIA H200", {"ComputeRunningProcesses": []}),
        ]
        monkeypatch.setattr(admission, "nvml_or_none", lambda: open_nvml(StubNvml(*cards)))

    return put


def nothing() -> None:
    pass


def outcomes(node: AgentNode) -> list[tuple[str, str, str | None]]:
    (reports,) = node.posted
    return [(report["gpu"]["uuid"], report["outcome"], report.get("reason")) for report in reports]


def test_without_wait_a_busy_gpu_is_skipped_and_the_other_measured(
    agent: Agent, node: AgentNode, somebody_on_a: Callable[..., None]
) -> None:
    """A pod that sees all gpus of its node respects those that other pods use."""
    somebody_on_a(nothing)
    agent(*RUN)

    assert outcomes(node) == [("GPU-a", "skipped", "busy"), ("GPU-b", "measured", None)]
    assert not node.touched("GPU-a")


def test_a_gpu_that_becomes_idle_in_time_is_measured_after_those_that_were_idle(
    agent: Agent, node: AgentNode, somebody_on_a: Callable[..., None]
) -> None:
    somebody_on_a(nothing, nothing)
    ended = agent(*RUN, "--wait", "1s")

    assert outcomes(node) == [("GPU-b", "measured", None), ("GPU-a", "measured", None)]
    assert "waiting up to" in ended.stderr


def test_a_gpu_that_stays_busy_is_skipped_when_the_time_is_up(
    agent: Agent, node: AgentNode, somebody_on_a: Callable[..., None]
) -> None:
    somebody_on_a(*[nothing] * 1000)
    ended = agent(*RUN, "--wait", "1s")

    assert outcomes(node) == [("GPU-b", "measured", None), ("GPU-a", "skipped", "busy")]
    assert ended.code == 0


def test_a_signal_ends_the_waiting_at_once_and_what_was_measured_is_delivered(
    agent: Agent, node: AgentNode, somebody_on_a: Callable[..., None]
) -> None:
    somebody_on_a(nothing, lambda: os.kill(os.getpid(), signal.SIGTERM), *[nothing] * 1000)
    ended = agent(*RUN, "--wait", "30m")

    assert outcomes(node) == [("GPU-b", "measured", None)]
    assert ended.code == 1


def test_whoever_measures_in_company_waits_for_nobody(
    agent: Agent, node: AgentNode, somebody_on_a: Callable[..., None]
) -> None:
    somebody_on_a(nothing)
    agent(*RUN, "--wait", "30m", "--force")
    ((first, _),) = node.posted

    assert (first["gpu"]["uuid"], first["outcome"], first["evidence"]["contended"]) == ("GPU-a", "measured", True)
