"""The verdict that `check` and `run` leave on a node, and `check --max-age`, which reads it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from fleetridge_agent.check.last_verdict import keep_last, read_last, verdict_path
from fleetridge_agent.check.verdict import GpuVerdict, State
from fleetridge_agent.errors import DeviceBusyError, NoDeviceError
from support.agent_commands import AgentNode, Ended, kept_states, scripted_gpu, unreachable

Agent = Callable[..., Ended]


def left(node: AgentNode, **states: State) -> None:
    """Leave verdicts of an hour ago."""
    hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    keep_last(
        node.state_dir,
        "n1",
        [GpuVerdict(uuid=f"GPU-{name}", index=0, state=state, judged_at=hour_ago) for name, state in states.items()],
        all_gpus=True,
    )


@pytest.mark.parametrize(
    ("states", "code"), [({"a": "ok"}, 0), ({"a": "ok", "b": "degraded"}, 1), ({"a": "ok", "b": "unknown"}, 2)]
)
def test_the_last_verdict_is_given_again(agent: Agent, node: AgentNode, states: dict[str, State], code: int) -> None:
    left(node, **states)
    ended = agent("check", "--max-age", "24h")

    assert ended.code == code
    assert ended.line.endswith("1 h ago")
    assert not node.touched("GPU-a")
    assert not node.questions


def test_a_service_of_kubernetes_beside_it_changes_nothing(
    agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(node, a="ok")
    for name in ("SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_8000_TCP_ADDR"):
        monkeypatch.setenv(f"FLEETRIDGE_SERVER_{name}", "tcp://10.0.0.1:8000")
    ended = agent("check", "--max-age", "50h", "--state-dir", str(node.state_dir))

    assert ended.code == 0
    assert "FLEETRIDGE_SERVER" not in ended.stderr
    assert "warning" not in ended.stderr


def test_a_verdict_that_is_too_old_is_unknown(agent: Agent, node: AgentNode) -> None:
    left(node, a="ok")
    ended = agent("check", "--max-age", "59m")

    assert (ended.code, ended.line) == (2, "unknown: gpu 0 verdict too old, 1 h ago")


def test_a_node_that_was_never_checked_is_unknown(agent: Agent) -> None:
    ended = agent("check", "--max-age", "24h")

    assert (ended.code, ended.line) == (2, "unknown: never checked")
    assert "`check` and `run` leave one there" in ended.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        (
            b'{"format": 1, "node": "n1", "gpus": [{"state": "ok", "judged_at": "2026-11-20T00:00:00Z", "roofs": '
            b'[{"roof": "pi", "unit": "TFLOP/s", "value": 1.0, "state": "ok", "median": 0.0}]}]}'
        ),
    ],
    ids=["empty", "cut", "median of zero"],
)
def test_a_verdict_that_cannot_be_read_is_unknown_and_said_to_be_there(
    agent: Agent, node: AgentNode, content: bytes
) -> None:
    left(node, a="ok")
    verdict_path(node.state_dir, "n1").write_bytes(content)
    ended = agent("check", "--max-age", "24h")

    assert (ended.code, ended.line) == (2, "unknown: unreadable verdict")
    assert str(verdict_path(node.state_dir, "n1")) in ended.stderr


@pytest.mark.parametrize("wrong", [("--bogus",), ("--max-age", "soon"), ("--log-format", "xml")])
def test_a_check_that_is_called_wrongly_still_prints_its_line(agent: Agent, wrong: tuple[str, ...]) -> None:
    ended = agent("check", *wrong)

    assert (ended.code, ended.line) == (2, "unknown: usage")


def test_a_gpu_of_which_nothing_was_said_is_unknown(agent: Agent, node: AgentNode) -> None:
    left(node, a="ok")

    assert agent("check", "--max-age", "24h", "--gpus", "GPU-a").code == 0
    assert agent("check", "--max-age", "24h", "--gpus", "GPU-z").stdout == "unknown: no such gpu\n"


WITHOUT_DRIVERS = """
import sys
sys.modules.update(dict.fromkeys(("torch", "pynvml", "numpy")))
import ctypes
def refuse(*_): raise AssertionError("a library was loaded")
ctypes.CDLL = refuse
from fleetridge_agent.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_last_verdict_needs_neither_torch_nor_a_driver(node: AgentNode) -> None:
    left(node, a="ok")
    command = [sys.executable, "-c", WITHOUT_DRIVERS, "check", "--max-age", "24h", "--state-dir", str(node.state_dir)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "ok"), done.stderr


RUN = ("run", "--server", "https://f.example", "--profile", "quick")


def test_a_run_leaves_a_verdict_for_health_checks(agent: Agent, fleet: AgentNode) -> None:
    ran, checked = agent(*RUN), agent("check", "--max-age", "24h")

    assert (ran.code, checked.code) == (0, 0)
    assert checked.line.startswith("ok: 2 gpus")
    assert len(fleet.posts) == 1


def test_a_run_accuses_a_gpu_when_it_finds_it_slow_for_the_second_time(agent: Agent, fleet: AgentNode) -> None:
    fleet.devices["GPU-b"] = scripted_gpu("GPU-b", pi_tflops=700.0)
    agent(*RUN)
    once = agent("check", "--max-age", "24h")
    agent(*RUN)
    twice = agent("check", "--max-age", "24h")

    assert (once.code, once.line) == (2, "unknown: 1 of 2 gpus, GPU-b not confirmed: once, 0 s ago")
    assert (twice.code, twice.line) == (1, "degraded: 1 of 2 gpus, GPU-b -12.5 % in pi bfloat16 burst, 0 s ago")


@pytest.mark.parametrize("own_way", [("--reps", "3"), ("--mode", "bandwidth")])
def test_a_run_with_options_of_its_own_leaves_the_last_verdict_alone(
    agent: Agent, fleet: AgentNode, own_way: tuple[str, ...]
) -> None:
    agent(*RUN)
    before = read_last(fleet.state_dir, "n1")
    agent(*RUN, *own_way)

    assert read_last(fleet.state_dir, "n1") == before


def test_a_run_that_finds_every_gpu_busy_leaves_the_last_verdict_alone(agent: Agent, fleet: AgentNode) -> None:
    agent(*RUN)
    before = read_last(fleet.state_dir, "n1")
    fleet.devices = {uuid: DeviceBusyError("somebody uses it") for uuid in fleet.devices}
    agent(*RUN)

    assert read_last(fleet.state_dir, "n1") == before


def test_a_run_on_a_node_without_its_driver_leaves_that_as_its_verdict(agent: Agent, fleet: AgentNode) -> None:
    agent(*RUN)
    fleet.no_gpu = NoDeviceError("the driver is in trouble; see to it", reason="driver_library_mismatch")
    agent(*RUN)

    assert agent("check", "--max-age", "24h").stdout == "unknown: driver_library_mismatch\n"


def test_gpus_measured_at_once_are_held_against_nobody_else(agent: Agent, fleet: AgentNode) -> None:
    agent(*RUN, "--all-at-once")

    assert len(fleet.posted[0]) == 4
    assert kept_states(fleet) == {"GPU-a": "ok", "GPU-b": "ok"}


def test_a_run_whose_server_tells_no_band_is_no_failure(agent: Agent, fleet: AgentNode) -> None:
    fleet.fleet = unreachable
    ended = agent(*RUN)

    assert ended.code == 0
    assert kept_states(fleet) == {"GPU-a": "unknown", "GPU-b": "unknown"}
