"""`fleetridge-agent run` and `flush`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from fleetridge.report import Report
from fleetridge_agent.busy import admission
from fleetridge_agent.deliver.spool import Spool
from fleetridge_agent.errors import DeviceBusyError, MigWithoutSliceError, NoDeviceError, SpoolError
from fleetridge_agent.gpus import listing
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.lock import node_lock
from fleetridge_agent.readings.nvml import open_nvml
from support.agent_commands import AgentNode, Ended, all_created, answered, at_step, scripted_gpu
from support.stub_nvml import StubCard, StubNvml

Agent = Callable[..., Ended]

RUN = ("run", "--server", "https://f.example", "--square", "512", "--m-sweep", "1")
FLUSH = ("flush", "--server", "https://f.example")


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


def test_every_gpu_of_the_node_is_measured_and_delivered_in_one_call(agent: Agent, node: AgentNode) -> None:
    ended = agent(*RUN)
    (reports,) = node.posted

    assert ended.code == 0
    assert [report["gpu"]["uuid"] for report in reports] == ["GPU-a", "GPU-b"]
    assert len({report["run"]["run_id"] for report in reports}) == 1
    assert not node.spooled


def test_the_outcome_of_each_gpu_is_printed(agent: Agent) -> None:
    ended = agent(*RUN)

    assert [line.split()[0] for line in ended.stdout.splitlines()[3:]] == ["GPU-a", "GPU-b"]
    assert "reports delivered: 2" in ended.stderr


def test_what_is_posted_is_a_report_of_this_node(agent: Agent, node: AgentNode) -> None:
    agent(*RUN, "--cluster", "east", "--label", "rack=r1")
    report = Report.model_validate(node.posted[0][0])

    assert (report.node.cluster, report.node.name, report.node.labels) == ("east", "n1", {"rack": "r1"})
    assert report.run.kind == "cron"
    assert report.agent.arguments == ("run", "--square", "512", "--m-sweep", "1")


def test_reports_are_on_disk_before_they_are_sent(agent: Agent, node: AgentNode) -> None:
    on_disk: list[bytes] = []

    def server(request: httpx.Request) -> httpx.Response:
        on_disk.extend(path.read_bytes() for path in node.spooled)
        return all_created(request)

    node.server = server
    agent(*RUN)

    assert [json.loads(body) for body in on_disk] == node.posted[0]


def test_a_gpus_report_is_on_disk_before_the_next_gpu_is_touched(agent: Agent, node: AgentNode) -> None:
    seen: list[int] = []
    node.devices["GPU-b"] = scripted_gpu("GPU-b", on_step=lambda: seen.append(len(node.spooled)))
    agent(*RUN)

    assert set(seen) == {1}


def test_without_a_server_in_reach_reports_wait_and_that_is_no_failure(agent: Agent, node: AgentNode) -> None:
    node.server = unreachable
    ended = agent(*RUN)

    assert ended.code == 0
    assert len(node.spooled) == 2
    assert "warning: not delivered, 2 of 2: https://f.example cannot be reached" in ended.stderr
    assert "flush`: 2" in ended.stderr


def test_the_next_run_delivers_its_own_reports_first_and_then_what_waited(agent: Agent, node: AgentNode) -> None:
    node.server = unreachable
    agent(*RUN)
    waiting = [json.loads(path.read_bytes())["report_id"] for path in node.spooled]
    node.server, node.posts = all_created, []
    ended = agent(*RUN)
    own, earlier = node.posted

    assert ended.code == 0
    assert [report["report_id"] for report in earlier] == waiting
    assert not set(waiting) & {report["report_id"] for report in own}
    assert not node.spooled


def test_flush_delivers_what_waited_and_measures_nothing(agent: Agent, node: AgentNode) -> None:
    node.server = unreachable
    agent(*RUN)
    node.server, node.posts = all_created, []
    node.devices = {}
    ended = agent(*FLUSH)

    assert ended.code == 0
    assert [len(reports) for reports in node.posted] == [2]
    assert not node.spooled
    assert ended.stdout == ""


def test_flush_of_an_empty_spool_asks_nobody(agent: Agent, node: AgentNode) -> None:
    assert agent(*FLUSH).code == 0
    assert not node.posts


def test_a_conflict_or_rejection_is_a_dead_letter_and_an_exit_code_of_its_own(agent: Agent, node: AgentNode) -> None:
    node.server = answered({"GPU-a": "rejected", "GPU-b": "created"})
    ended = agent(*RUN)
    (letter,) = (node.state_dir / "dead-letter").glob("*.json")

    assert ended.code == 5
    assert json.loads(letter.read_bytes())["gpu"]["uuid"] == "GPU-a"
    assert not node.spooled


@pytest.mark.parametrize("status", [302, 401, 403, 404, 413, 422, 429, 500, 503])
def test_no_status_of_a_call_makes_a_dead_letter(agent: Agent, node: AgentNode, status: int) -> None:
    node.server = lambda _: httpx.Response(status)
    ended = agent(*RUN)

    assert ended.code == 0
    assert len(node.spooled) == 2
    assert not (node.state_dir / "dead-letter").exists()


def test_a_lost_answer_is_followed_by_the_same_bytes(agent: Agent, node: AgentNode) -> None:
    answers = iter([httpx.Response(200, content=b'{"results": [{"rep'), None])
    node.server = lambda request: next(answers) or answered("duplicate")(request)
    ended = agent(*RUN)

    assert ended.code == 0
    assert node.posted[0] == node.posted[1]
    assert not node.spooled


def test_an_unusable_state_directory_is_said_and_reports_are_sent_from_memory(
    agent: Agent, node: AgentNode, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ended = agent(*RUN, "--state-dir", str(tmp_path / "file"))

    assert ended.code == 0
    assert len(node.posted[0]) == 2
    assert "from memory" in ended.stderr


def test_reports_that_fit_neither_disk_nor_server_are_lost_and_that_is_a_failure(
    agent: Agent, node: AgentNode, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    node.server = unreachable
    ended = agent(*RUN, "--state-dir", str(tmp_path / "file"))

    assert ended.code == 1
    assert "error: reports that are lost, neither delivered nor on disk: 2" in ended.stderr


def test_a_second_run_on_the_node_says_so_and_measures_nothing(agent: Agent, node: AgentNode) -> None:
    with node_lock(node.state_dir, "n1"):
        ended = agent(*RUN)
    ((report,),) = node.posted

    assert ended.code == 4
    assert (report["outcome"], report["reason"], "gpu" in report) == ("skipped", "already_running", False)
    assert not node.touched("GPU-a")


@pytest.mark.parametrize("reason", ["nvml_unknown_error", "driver_library_mismatch", "cuda_not_ready"])
def test_a_node_that_cannot_be_measured_reports_why(agent: Agent, node: AgentNode, reason: str) -> None:
    node.no_gpu = NoDeviceError("the driver is in trouble; see to it", reason=reason)
    ended = agent(*RUN)
    ((report,),) = node.posted

    assert ended.code == 3
    assert (report["outcome"], report["reason"], "gpu" in report) == ("failed", reason, False)
    assert report["detail"] == "the driver is in trouble; see to it"


def test_a_node_that_is_not_ready_names_the_gpus_that_it_saw_and_no_rate(
    agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fabric manager has not started yet: NVML lists the gpu, CUDA refuses, and 0 would be a lie."""
    card = StubCard("GPU-a", "0000:01:00.0", "NVIDIA H200")
    monkeypatch.setattr(listing, "nvml_or_none", lambda: open_nvml(StubNvml(card)))
    node.no_gpu = NoDeviceError("CUDA answers 802", reason="cuda_not_ready")
    agent(*RUN)
    ((report,),) = node.posted

    assert [gpu["uuid"] for gpu in report["run"]["roster"]] == ["GPU-a"]
    assert not report["points"]
    assert not report["roofs"]


def test_every_report_names_all_gpus_of_the_node_whatever_the_variable_leaves(
    agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the server can tell a gpu that has gone from one that was not to be measured."""
    cards = [StubCard(uuid, f"0000:0{place}:00.0", "NVIDIA H200") for place, uuid in enumerate(("GPU-a", "GPU-b"))]
    monkeypatch.setattr(listing, "nvml_or_none", lambda: open_nvml(StubNvml(*cards)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    del node.devices["GPU-a"]
    agent(*RUN)
    ((report,),) = node.posted

    assert report["gpu"]["uuid"] == "GPU-b"
    assert [gpu["uuid"] for gpu in report["run"]["roster"]] == ["GPU-a", "GPU-b"]


def test_a_card_in_mig_mode_without_a_slice_is_skipped_and_the_others_are_measured(
    agent: Agent, node: AgentNode
) -> None:
    node.without_slice = (CudaGpu(0, "GPU-s", "0000:09:00.0", "NVIDIA H100 NVL", None),)
    ended = agent(*RUN)
    skipped, *others = node.posted[0]

    assert ended.code == 0
    assert (skipped["gpu"]["uuid"], skipped["outcome"], skipped["reason"]) == ("GPU-s", "skipped", "mig_without_slice")
    assert [report["outcome"] for report in others] == ["measured", "measured"]


def test_a_node_of_such_cards_is_no_failure(agent: Agent, node: AgentNode) -> None:
    """The exit code tells it apart, and each card has a report of its own."""
    node.without_slice = (CudaGpu(0, "GPU-s", "0000:09:00.0", "NVIDIA H100 NVL", None),)
    node.no_gpu = MigWithoutSliceError("every gpu is in MIG mode and has no slice")
    ended = agent(*RUN)
    ((report,),) = node.posted

    assert ended.code == 4
    assert (report["gpu"]["uuid"], report["reason"]) == ("GPU-s", "mig_without_slice")


def test_a_chosen_card_without_a_slice_says_why_it_is_not_measured(agent: Agent, node: AgentNode) -> None:
    node.without_slice = (CudaGpu(0, "GPU-s", "0000:09:00.0", "NVIDIA H100 NVL", None),)
    ended = agent(*RUN, "--gpus", "GPU-s")
    ((report,),) = node.posted

    assert (ended.code, report["gpu"]["uuid"], report["reason"]) == (4, "GPU-s", "mig_without_slice")


def test_all_at_once_is_a_second_pass_whose_reports_say_so(agent: Agent, node: AgentNode) -> None:
    ended = agent(*RUN, "--all-at-once")
    reports = node.posted[0]

    assert ended.code == 0
    assert [report["gpu"]["uuid"] for report in reports] == ["GPU-a", "GPU-b", "GPU-a", "GPU-b"]
    assert [report["agent"]["method"] for report in reports] == ["standard"] * 2 + ["standard_together"] * 2
    assert [report["sweep"].get("gpus_at_once") for report in reports] == [None, None, 2, 2]
    assert "--all-at-once" in reports[0]["agent"]["arguments"]
    assert "measured at once" in ended.stdout


def test_one_gpu_alone_is_not_measured_at_once(agent: Agent, node: AgentNode) -> None:
    """Also where only one of several could be measured: it would not share power and air with the others."""
    node.devices["GPU-a"] = DeviceBusyError("somebody uses it")
    ended = agent(*RUN, "--all-at-once")

    assert len(node.posted[0]) == 2
    assert "no second pass" in ended.stderr


def test_a_busy_gpu_is_skipped_with_what_was_seen_and_the_others_are_measured(
    agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a DaemonSet does: it may see the gpus that other pods were given, and keeps off them."""
    taken = {"ComputeRunningProcesses": [SimpleNamespace(pid=1, usedGpuMemory=100)]}
    cards = StubCard("GPU-a", "0000:01:00.0", "NVIDIA H200"), StubCard("GPU-b", "0000:02:00.0", "NVIDIA H200", taken)
    monkeypatch.setattr(admission, "nvml_or_none", lambda: open_nvml(StubNvml(*cards)))
    monkeypatch.setattr("time.sleep", lambda _: None)
    ended = agent(*RUN)
    idle, busy = node.posted[0]

    assert ended.code == 0
    assert (idle["gpu"]["uuid"], idle["outcome"]) == ("GPU-a", "measured")
    assert (busy["gpu"]["uuid"], busy["outcome"], busy["reason"]) == ("GPU-b", "skipped", "busy")
    assert busy["evidence"] == {
        "contended": True,
        "other_processes": 1,
        "phases": [],
        "signals_seen": ["processes"],
    }
    assert not node.touched("GPU-b")


def test_a_gpu_that_cannot_be_opened_has_a_report_of_its_own(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = NoDeviceError("gpu 0 cannot be used", reason="device_fault")
    ended = agent(*RUN)
    broken, healthy = node.posted[0]

    assert ended.code == 3
    assert (broken["gpu"]["uuid"], broken["outcome"], broken["reason"]) == ("GPU-a", "failed", "device_fault")
    assert healthy["outcome"] == "measured"


def test_only_when_every_gpu_is_skipped_is_the_run_skipped(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = DeviceBusyError("somebody uses it")

    assert agent(*RUN).code == 0

    node.devices["GPU-b"] = DeviceBusyError("somebody uses it")

    assert agent(*RUN).code == 4


def test_a_gpu_that_breaks_fails_the_run_and_its_points_are_delivered(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = scripted_gpu("GPU-a", fault_at=6)
    ended = agent(*RUN)

    assert ended.code == 1
    assert [report["outcome"] for report in node.posted[0]] == ["failed", "measured"]
    assert node.posted[0][0]["points"]


def test_a_gpu_to_which_somebody_comes_is_skipped_and_no_failure(
    agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two in a row would else make a healthy gpu one that cannot be measured."""
    monkeypatch.setattr("fleetridge_agent.busy.foreign_use._WATCH_INTERVAL_S", 0.0)
    node.devices["GPU-a"] = scripted_gpu("GPU-a", arrives_after=20)
    ended = agent(*RUN)
    report, _ = node.posted[0]

    assert ended.code == 0
    assert (report["outcome"], report["reason"]) == ("skipped", "preempted")
    assert report["points"] == []

    node.devices = {"GPU-a": scripted_gpu("GPU-a", arrives_after=20)}

    assert agent(*RUN).code == 4


def test_a_signal_before_there_is_a_roof_fails_the_run_and_not_the_gpu(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = scripted_gpu("GPU-a", on_step=at_step(0, lambda: signal.raise_signal(signal.SIGTERM)))
    ended = agent(*RUN)
    (report,) = node.posted[0]

    assert ended.code == 1
    assert (report["outcome"], report["reason"]) == ("skipped", "preempted")


def test_a_signal_delivers_or_spools_what_was_measured_so_far(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = scripted_gpu("GPU-a", on_step=at_step(3, lambda: signal.raise_signal(signal.SIGTERM)))
    node.server = unreachable
    ended = agent(*RUN)
    (waiting,) = [json.loads(path.read_bytes()) for path in node.spooled]

    assert ended.code == 1
    assert (waiting["outcome"], "reason" in waiting) == ("measured", False)
    assert waiting["detail"].startswith("the rest of the sweep: given up: ended by SIGTERM")
    assert len(node.posts) == 1
    assert not node.touched("GPU-b")


@pytest.mark.parametrize("command", [RUN[:1], FLUSH[:1]])
def test_without_a_server_it_is_a_wrong_call(agent: Agent, command: tuple[str, ...]) -> None:
    ended = agent(*command)

    assert ended.code == 2
    assert "--server is needed; give it or set FLEETRIDGE_SERVER" in ended.stderr


def test_the_token_comes_from_a_file(agent: Agent, node: AgentNode, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("frt_abc\n")
    agent(*RUN, "--token-file", str(tmp_path / "token"))

    assert node.posts[0].headers["authorization"] == "Bearer frt_abc"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"two\nlines", b"\xff\xfe", b"x" * 5000])
def test_a_file_without_a_token_is_a_wrong_call_and_is_not_repeated(
    agent: Agent, node: AgentNode, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "token").write_bytes(content)
    ended = agent(*RUN, "--token-file", str(tmp_path / "token"))

    assert ended.code == 2
    assert "--token-file" in ended.stderr
    assert "two" not in ended.stderr
    assert not node.posts


def test_a_token_file_that_is_not_there_is_a_wrong_call(agent: Agent, tmp_path: Path) -> None:
    ended = agent(*RUN, "--token-file", str(tmp_path / "absent"))

    assert ended.code == 2
    assert "--token-file: cannot read" in ended.stderr


def test_a_token_is_not_sent_in_the_clear_unless_that_is_asked_for(
    agent: Agent, node: AgentNode, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("frt_abc")
    plain = ("run", "--server", "http://f.example", *RUN[3:], "--token-file", str(tmp_path / "token"))

    assert agent(*plain).code == 2
    assert not node.posts
    assert agent(*plain, "--allow-plain-http").code == 0
    assert node.posts


def test_the_token_is_in_no_log_report_or_file(agent: Agent, node: AgentNode, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("frt_secret")
    node.server = lambda _: httpx.Response(401)
    ended = agent(*RUN, "--token-file", str(tmp_path / "token"))

    assert "frt_secret" not in ended.stdout + ended.stderr
    assert all(b"frt_secret" not in path.read_bytes() for path in node.state_dir.rglob("*") if path.is_file())


def test_a_spool_that_cannot_be_listed_is_said(agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Spool) -> list[Path]:
        raise SpoolError("cannot use the spool; look at the disk")

    monkeypatch.setattr(Spool, "pending", broken)
    ended = agent(*RUN)

    assert ended.code == 0
    assert "cannot use the spool" in ended.stderr
    assert len(node.posted[0]) == 2
