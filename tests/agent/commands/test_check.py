"""`fleetridge-agent check`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from fleetridge.report import Gpu
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.errors import DeviceBusyError, NoDeviceError
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from support.agent_commands import AgentNode, Ended, at_step, kept_states, scripted_gpu, told, unreachable
from support.ridges import ridge_answer
from support.scripted_device import ScriptedDevice, described

Agent = Callable[..., Ended]

CHECK = ("check", "--server", "https://f.example")


def test_gpus_within_the_fleets_band_are_ok(agent: Agent, fleet: AgentNode) -> None:
    ended = agent(*CHECK)

    assert ended.code == 0
    assert ended.line.startswith("ok: 2 gpus")
    assert kept_states(fleet) == {"GPU-a": "ok", "GPU-b": "ok"}
    assert "held against the fleet's band, from https://f.example" in ended.stderr
    assert len(fleet.questions) == 1


def test_a_slow_gpu_is_measured_again_before_it_is_called_degraded(agent: Agent, fleet: AgentNode) -> None:
    fleet.devices["GPU-b"] = scripted_gpu("GPU-b", pi_tflops=700.0)
    ended = agent(*CHECK)

    assert ended.code == 1
    assert ended.line == "degraded: 1 of 2 gpus, GPU-b -12.5 % in pi bfloat16 burst"
    assert [report["gpu"]["uuid"] for report in fleet.posted[0]] == ["GPU-a", "GPU-b", "GPU-b"]
    assert kept_states(fleet)["GPU-b"] == "degraded"


def test_one_disturbed_sweep_accuses_nobody(agent: Agent, fleet: AgentNode) -> None:
    gpu = scripted_gpu("GPU-a", pi_tflops=700.0)

    def recover_after_the_first_report() -> None:
        if fleet.spooled:
            gpu.pi_tflops = 800.0

    gpu.on_step = recover_after_the_first_report
    fleet.devices["GPU-a"] = gpu
    ended = agent(*CHECK)

    assert (ended.code, kept_states(fleet)["GPU-a"]) == (0, "ok")
    assert "measuring it once more" in ended.stderr


def test_what_a_check_measured_is_posted_as_such(agent: Agent, fleet: AgentNode) -> None:
    agent(*CHECK)
    report = fleet.posted[0][0]

    assert (report["run"]["kind"], report["sweep"]["profile"], report["agent"]["method"]) == (
        "check",
        "quick",
        "standard",
    )
    assert report["agent"]["arguments"] == ["check"]
    assert not fleet.spooled


def test_options_of_other_commands_do_not_change_how_a_check_measures(
    agent: Agent, fleet: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("PROFILE", "full"), ("REPS", "3"), ("MODE", "gemm"), ("BUFFER_MIB", "1")):
        monkeypatch.setenv(f"FLEETRIDGE_{name}", value)

    assert agent(*CHECK).code == 0
    assert fleet.posted[0][0]["agent"]["method"] == "standard"


def test_offline_the_last_band_is_used_and_said_with_its_age(agent: Agent, fleet: AgentNode) -> None:
    agent(*CHECK)
    fleet.fleet, fleet.posts = unreachable, []
    ended = agent(*CHECK)

    assert ended.code == 0
    assert "warning: held against the fleet's band as kept 0 s ago: https://f.example cannot be reached" in ended.stderr
    assert len(fleet.spooled) == 2
    assert not fleet.posts


def test_without_a_server_nothing_is_posted_or_spooled(agent: Agent, node: AgentNode) -> None:
    ended = agent("check")

    assert ended.code == 2
    assert ended.line == "unknown: 2 of 2 gpus, GPU-a no band"
    assert "no server is named; give --server" in ended.stderr
    assert not node.posts
    assert not node.spooled


def test_a_server_that_takes_no_reports_changes_no_verdict(agent: Agent, fleet: AgentNode) -> None:
    fleet.server = lambda _: httpx.Response(503)
    ended = agent(*CHECK)

    assert ended.code == 0
    assert len(fleet.posts) == 1
    assert len(fleet.spooled) == 2


def test_the_verdict_is_out_before_anything_is_delivered(
    agent: Agent, fleet: AgentNode, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def server(_: httpx.Request) -> httpx.Response:
        seen.append(capsys.readouterr().out)
        return httpx.Response(503)

    fleet.server = server
    agent(*CHECK)

    assert seen[0].startswith("ok: ")


def test_too_few_peers_are_unknown(agent: Agent, node: AgentNode) -> None:
    node.fleet = told(ridge_answer(n=3))
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, "unknown: 2 of 2 gpus, GPU-a 3 of 4 peers")


def test_a_device_that_the_server_does_not_know_is_unknown(agent: Agent) -> None:
    ended = agent(*CHECK)

    assert ended.code == 2
    assert "the server has no gpu of the device 'NVIDIA H200' yet" in ended.stderr


def test_a_busy_gpu_is_unknown_and_keeps_its_last_verdict(agent: Agent, fleet: AgentNode) -> None:
    agent(*CHECK)
    fleet.devices["GPU-a"] = DeviceBusyError("somebody uses it")
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, "unknown: 1 of 2 gpus, GPU-a busy")
    assert kept_states(fleet) == {"GPU-a": "ok", "GPU-b": "ok"}


def test_somebody_who_arrives_makes_it_unknown(agent: Agent, fleet: AgentNode) -> None:
    fleet.devices["GPU-a"] = scripted_gpu("GPU-a", foreign=ForeignUse(processes=1, signals=("processes",)))

    assert agent(*CHECK).code == 2


@pytest.mark.parametrize(
    "reason", ["nvml_unknown_error", "driver_library_mismatch", "cuda_not_ready", "mig_without_slice"]
)
def test_a_node_that_cannot_be_measured_is_unknown_and_forgets_what_it_was(
    agent: Agent, fleet: AgentNode, reason: str
) -> None:
    agent(*CHECK)
    fleet.no_gpu = NoDeviceError("the driver is in trouble; see to it", reason=reason)
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, f"unknown: {reason}")
    assert agent("check", "--max-age", "1h").stdout == f"unknown: {reason}\n"
    assert fleet.posted[-1][0]["reason"] == reason


def test_a_gpu_that_breaks_is_unknown(agent: Agent, fleet: AgentNode) -> None:
    fleet.devices["GPU-a"] = scripted_gpu("GPU-a", fault_at=1)
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, "unknown: 1 of 2 gpus, GPU-a ecc_uncorrectable")


def test_a_card_in_mig_mode_without_a_slice_is_unknown_and_costs_no_other_its_verdict(
    agent: Agent, fleet: AgentNode
) -> None:
    fleet.without_slice = (CudaGpu(7, "GPU-m", "0000:07:00.0", "NVIDIA H200", None),)
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, "unknown: 1 of 3 gpus, GPU-m mig_without_slice")
    assert kept_states(fleet) == {"GPU-m": "unknown", "GPU-a": "ok", "GPU-b": "ok"}
    assert [report["outcome"] for report in fleet.posted[0]] == ["skipped", "measured", "measured"]


def test_a_slice_is_held_against_slices_of_its_profile_only(agent: Agent, fleet: AgentNode) -> None:
    gpu = Gpu(uuid="MIG-a", device="NVIDIA H200", sm_count=16, mig_profile="1g.18gb")
    fleet.devices = {"MIG-a": ScriptedDevice(description=described(gpu=gpu), pi_tflops=100.0, beta_gbps=500.0)}
    whole = agent(*CHECK)
    fleet.fleet = told(ridge_answer(100.0, 500.0, sm_count=16, mig_profile="1g.18gb"))
    slices = agent(*CHECK)

    assert (whole.code, whole.line) == (2, "unknown: MIG-a no peers alike")
    assert (slices.code, slices.line) == (0, "ok: MIG-a 0.0 % in pi bfloat16 burst")


def test_some_gpus_can_be_chosen(agent: Agent, fleet: AgentNode) -> None:
    ended = agent(*CHECK, "--gpus", "GPU-b")

    assert ended.line.startswith("ok: GPU-b ")
    assert not fleet.touched("GPU-a")


def test_names_that_nobody_vouches_for_do_no_harm(agent: Agent, node: AgentNode) -> None:
    hostile = "\u202e" + "显" * 60
    node.devices = {f"{hostile}{number}": scripted_gpu(f"{hostile}{number}", pi_tflops=1.0) for number in range(8)}
    node.fleet = told(ridge_answer())
    ended = agent(*CHECK)

    assert ended.code == 1
    assert ended.line.isascii()
    assert "\u202e" not in ended.stderr


def test_a_signal_is_unknown_and_never_ok(agent: Agent, fleet: AgentNode) -> None:
    fleet.devices["GPU-a"] = scripted_gpu("GPU-a", on_step=at_step(0, lambda: signal.raise_signal(signal.SIGTERM)))
    ended = agent(*CHECK)

    assert ended.code == 2
    assert ended.line == "unknown: 2 of 2 gpus, GPU-a preempted"
    assert kept_states(fleet) == {"GPU-a": "unknown", "GPU-b": "unknown"}


def test_a_signal_after_the_verdict_does_not_change_it(agent: Agent, fleet: AgentNode) -> None:
    """The line is out; an exit code that contradicts it would be a second verdict."""

    def server(_: httpx.Request) -> httpx.Response:
        signal.raise_signal(signal.SIGTERM)
        return httpx.Response(503)

    fleet.server = server
    ended = agent(*CHECK)

    assert (ended.code, ended.line.partition(",")[0]) == (0, "ok: 2 gpus")


def test_a_gpu_that_looks_slow_is_not_accused_where_a_signal_leaves_no_time_for_a_second_look(
    agent: Agent, fleet: AgentNode
) -> None:
    last_step = at_step(2, lambda: signal.raise_signal(signal.SIGTERM))
    fleet.devices = {"GPU-a": scripted_gpu("GPU-a", pi_tflops=700.0, on_step=last_step)}
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, "unknown: GPU-a not confirmed: once")


def test_a_gpu_to_which_somebody_comes_after_its_roofs_is_judged_by_them(
    agent: Agent, fleet: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetridge_agent.busy.foreign_use._WATCH_INTERVAL_S", 0.0)
    looks_alone = scripted_gpu("GPU-a", foreign=ForeignUse(processes=0, bytes=0, signals=("processes",)))
    fleet.devices = {"GPU-a": looks_alone}
    agent(*CHECK)
    queues = len(looks_alone.queues)
    nobody = ForeignUse(processes=0, bytes=0, signals=("processes",))
    fleet.devices["GPU-a"] = scripted_gpu("GPU-a", foreign=nobody, arrives_after=queues - 1)
    ended = agent(*CHECK)

    assert (ended.code, ended.line.partition(" ")[0]) == (0, "ok:")
    assert "given up: somebody else began" in fleet.posted[-1][0]["detail"]


def test_a_fault_of_our_own_is_unknown(agent: Agent, node: AgentNode) -> None:
    def broken(_: httpx.Request) -> httpx.Response:
        raise RuntimeError("nobody expected this")

    node.fleet = broken
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, "unknown: crashed: RuntimeError")
    assert "nobody expected this" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--baseline", "/nowhere/base.json"),
        ("--baseline", "a", "--save-baseline", "b"),
        ("--max-age", "1h", "--baseline", "a"),
        ("--max-age", "yesterday"),
        ("--tolerance", "0"),
        ("--server", "ftp://f.example"),
    ],
)
def test_a_wrong_call_is_unknown_and_says_so_on_its_line(
    agent: Agent, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    agent("check", "--save-baseline", str(tmp_path / "base.json"))
    against = ("--baseline", str(tmp_path / "base.json")) if "--tolerance" in arguments else ()
    ended = agent("check", *against, *arguments)

    assert (ended.code, ended.line) == (2, "unknown: usage")


def test_a_baseline_is_kept_and_held_against_without_a_server(agent: Agent, node: AgentNode, tmp_path: Path) -> None:
    path = str(tmp_path / "base.json")
    saved = agent("check", "--save-baseline", path)
    node.devices["GPU-b"] = scripted_gpu("GPU-b", pi_tflops=760.0)
    strict, loose = (agent("check", "--baseline", path, "--tolerance", share) for share in ("3%", "10 %"))

    assert (saved.code, saved.line) == (0, "ok: baseline of 2 gpus saved")
    assert (strict.code, strict.line) == (1, "degraded: 1 of 2 gpus, GPU-b -5.0 % in pi bfloat16 burst")
    assert (loose.code, loose.line.partition(",")[0]) == (0, "ok: 2 gpus")
    assert not node.questions


def test_no_baseline_is_made_of_a_node_that_could_not_be_measured_whole(
    agent: Agent, node: AgentNode, tmp_path: Path
) -> None:
    node.devices["GPU-b"] = DeviceBusyError("somebody uses it")
    ended = agent("check", "--save-baseline", str(tmp_path / "base.json"))

    assert (ended.code, ended.line) == (2, "unknown: no baseline saved")
    assert not (tmp_path / "base.json").exists()


def test_a_baseline_that_cannot_be_written_is_unknown(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = agent("check", "--save-baseline", str(tmp_path / "file" / "base.json"))

    assert ended.code == 2
    assert "--save-baseline: cannot write" in ended.stderr


def test_a_state_directory_that_cannot_be_written_costs_the_memory_and_not_the_verdict(
    agent: Agent, fleet: AgentNode, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ended = agent(*CHECK, "--state-dir", str(tmp_path / "file"))

    assert ended.code == 0
    assert "--max-age will not find it" in ended.stderr
    assert len(fleet.posts) == 1


@pytest.mark.usefixtures("fleet")
def test_details_are_in_the_log_with_every_number(agent: Agent) -> None:
    log = agent(*CHECK, "--gpus", "GPU-a", "--log-format", "json").stderr.splitlines()
    messages = [json.loads(line)["message"] for line in log]

    assert "GPU-a (NVIDIA H200, GPU-a): ok" in messages
    assert (
        "  pi bfloat16 burst 800 TFLOP/s, 0.0 % of the median 800 TFLOP/s of 32 peers, "
        "degraded below 776 TFLOP/s: ok" in messages
    )


def test_a_baseline_never_takes_the_place_of_a_device(agent: Agent, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ended = agent("check", "--save-baseline", str(pipe))

    assert ended.code == 2
    assert ended.line == "unknown: usage"
    assert pipe.is_fifo()
