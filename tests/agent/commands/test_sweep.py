"""`fleetridge-agent sweep`."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import fleetridge
from fleetridge.report import Envelope, Report
from fleetridge_agent.device.gemm_variants import Gemm
from fleetridge_agent.errors import DeviceBusyError, NoDeviceError, UsageError
from fleetridge_agent.lock import gpu_lock
from fleetridge_agent.readings.nvml import open_nvml
from support.agent_commands import AgentNode, Ended, at_step, scripted_gpu
from support.stub_nvml import StubCard, StubNvml

Agent = Callable[..., Ended]

QUICK = ("sweep", "--square", "512", "--m-sweep", "1")


def test_it_measures_the_first_gpu_and_prints_everything(agent: Agent) -> None:
    ended = agent(*QUICK)

    assert ended.code == 0
    for part in ("Environment", "Square GEMM", "Weight shapes", "Streaming kernels", "Roofline, bfloat16", "T* ="):
        assert part in ended.stdout
    assert "GPU-a" in ended.stdout
    assert "GPU-b" not in ended.stdout


def test_progress_and_logs_go_to_standard_error_alone(agent: Agent) -> None:
    ended = agent(*QUICK)

    assert "measuring NVIDIA H200 (GPU-a)" in ended.stderr
    assert "measuring NVIDIA" not in ended.stdout


@pytest.mark.parametrize("chosen", [("1",), ("GPU-b",)])
def test_a_gpu_is_chosen_by_number_or_uuid(agent: Agent, chosen: tuple[str, ...]) -> None:
    ended = agent(*QUICK, "--gpus", *chosen)

    assert "GPU-b" in ended.stdout
    assert "GPU-a" not in ended.stdout


@pytest.mark.parametrize("chosen", [("0", "1"), ("all",), ("GPU-a", "GPU-b", "0")])
def test_several_gpus_are_measured_one_after_the_other_and_each_once(agent: Agent, chosen: tuple[str, ...]) -> None:
    ended = agent(*QUICK, "--gpus", *chosen)

    assert ended.stdout.count("Roofline, bfloat16") == 2


def test_options_reach_the_measurement(agent: Agent, node: AgentNode) -> None:
    options = ("--dtype", "float16", "--square", "64", "128", "--m-sweep", "7", "--buffer-mib", "2048", "--reps", "5")
    ended = agent("sweep", *options, "--warmup", "2", "--tp", "2", "--json", "-")
    report = Report.model_validate(json.loads(ended.stdout))

    assert report.sweep is not None
    assert (report.sweep.dtypes, report.sweep.square, report.sweep.m_sweep) == (("float16",), (64, 128), (7,))
    assert (report.sweep.buffer_bytes, report.sweep.reps, report.sweep.warmup) == (2048 * 1024**2, 5, 2)
    assert report.sweep.tensor_parallel == 2
    assert report.agent.method == "custom"
    assert {gemm.variant.dtype for gemm in node.touched("GPU-a") if isinstance(gemm, Gemm)} == {"float16"}


def test_variables_stand_in_for_options(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETRIDGE_DTYPE", "float16,bfloat16")
    monkeypatch.setenv("FLEETRIDGE_CLUSTER", "east")
    monkeypatch.setenv("FLEETRIDGE_LABEL", "rack=r1,zone=z")
    report = Report.model_validate(json.loads(agent(*QUICK, "--json", "-").stdout))

    assert report.sweep is not None
    assert report.sweep.dtypes == ("float16", "bfloat16")
    assert (report.node.cluster, report.node.name, report.node.labels) == ("east", "n1", {"rack": "r1", "zone": "z"})


def test_json_on_standard_output_is_the_report_and_nothing_else(agent: Agent) -> None:
    ended = agent(*QUICK, "--json", "-")

    assert Report.model_validate(json.loads(ended.stdout)).outcome == "measured"


def test_json_of_several_gpus_is_an_envelope(agent: Agent) -> None:
    envelope = Envelope[Report].model_validate(json.loads(agent(*QUICK, "--gpus", "all", "--json", "-").stdout))

    assert [report.gpu.uuid for report in envelope.reports if report.gpu] == ["GPU-a", "GPU-b"]
    assert len({report.run.run_id for report in envelope.reports}) == 1


def test_files_are_written_beside_what_is_printed(agent: Agent, tmp_path: Path) -> None:
    ended = agent(*QUICK, "--csv", str(tmp_path / "r.csv"), "--json", str(tmp_path / "r.json"))

    assert "Roofline" in ended.stdout
    assert (tmp_path / "r.csv").read_text().startswith("kind,label,M,K,N,ms,tflops,intensity,gbps,")
    assert Report.model_validate(json.loads((tmp_path / "r.json").read_text())).points


def test_a_file_that_cannot_be_written_costs_the_other_nothing(agent: Agent, tmp_path: Path) -> None:
    ended = agent(*QUICK, "--csv", "/dev/full", "--json", str(tmp_path / "r.json"))

    assert ended.code == 1
    assert "cannot write /dev/full: No space left on device" in ended.stderr
    assert Report.model_validate(json.loads((tmp_path / "r.json").read_text())).points


def test_csv_can_go_to_standard_output(agent: Agent) -> None:
    rows = list(csv.DictReader(io.StringIO(agent(*QUICK, "--csv", "-").stdout)))

    assert {row["kind"] for row in rows} >= {"square", "skinny", "bandwidth"}


def test_the_command_line_is_in_the_report_without_paths_and_addresses(agent: Agent, tmp_path: Path) -> None:
    ended = agent(*QUICK, "--csv", str(tmp_path / "r.csv"), "--state-dir", str(tmp_path / "s"), "--json", "-")
    report = Report.model_validate(json.loads(ended.stdout))

    assert report.agent.arguments == ("sweep", "--square", "512", "--m-sweep", "1")


def test_half_a_sweep(agent: Agent) -> None:
    assert "Streaming kernels" not in agent(*QUICK, "--mode", "gemm").stdout
    assert "Square GEMM" not in agent(*QUICK, "--mode", "bandwidth").stdout


def test_a_given_peak_is_used(agent: Agent) -> None:
    ended = agent(*QUICK, "--peak-tflops", "1600", "--peak-gbps", "8800")

    assert "1600 TFLOP/s (given with --peak-tflops)" in ended.stdout
    assert "50.0 % of the published pi" in ended.stdout
    assert "50.0 % of the published beta" in ended.stdout


def test_the_users_model_is_placed(agent: Agent) -> None:
    ended = agent(*QUICK, "--hidden-size", "8192", "--gqa-group", "8")

    assert "[T,8192]" in ended.stdout
    assert "GQA g=8" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--reps", "0"), "--reps"),
        (("--warmup", "-1"), "--warmup"),
        (("--square", "0"), "--square"),
        (("--m-sweep", "x"), "--m-sweep"),
        (("--dtype", "float4"), "--dtype"),
        (("--mode", "half"), "--mode"),
        (("--profile", "long"), "--profile"),
        (("--device", "tpu"), "--device"),
        (("--buffer-mib", "1.5"), "--buffer-mib"),
        (("--model", "nobody/nothing"), "--model"),
        (("--tp", "3"), "--tp"),
        (("--peak-tflops", "nan"), "--peak-tflops"),
        (("--peak-gbps", "-1"), "--peak-gbps"),
        (("--peak-tflops", "9", "--dtype", "float16", "bfloat16"), "--peak-tflops"),
        (("--hidden-size", "0"), "--hidden-size"),
        (("--gqa-group", "0"), "--gqa-group"),
        (("--label", "rack"), "--label"),
        (("--label", "rack=1", "--label", "rack=2"), "--label"),
        (("--cluster", "x" * 300), "--cluster"),
        (("--node", "a\x1bb"), "--node"),
        (("--device", "cpu", "--gpus", "0"), "--gpus"),
        (("--square", *map(str, range(1, 1026))), "--square"),
        (("--m-sweep", *map(str, range(1, 1025))), "--m-sweep"),
        (("--csv", "-", "--json", "-"), "--csv"),
        (("--csv", "/nowhere/at/all.csv"), "--csv"),
        (("--json", "/"), "--json"),
        (("--log-format", "xml"), "--log-format"),
        (("--state-dir", ""), "--state-dir"),
    ],
)
def test_a_wrong_value_ends_it_before_anything_is_measured(
    agent: Agent, node: AgentNode, arguments: tuple[str, ...], named: str
) -> None:
    ended = agent("sweep", *arguments)

    assert ended.code == 2
    assert named in ended.stderr
    assert ended.stdout == ""
    assert not node.touched("GPU-a")


def test_a_wrong_variable_is_named(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETRIDGE_REPS", "many")
    ended = agent("sweep")

    assert ended.code == 2
    assert "FLEETRIDGE_REPS: 'many' is not a whole number" in ended.stderr


def test_without_a_gpu_it_says_so_and_measures_nothing(agent: Agent, node: AgentNode) -> None:
    node.no_gpu = NoDeviceError("no gpu is visible; give --device cpu to measure the CPU instead")
    ended = agent(*QUICK)

    assert ended.code == 3
    assert ended.stdout == ""
    assert "--device cpu" in ended.stderr


def test_a_gpu_that_is_not_there_is_named(agent: Agent) -> None:
    ended = agent(*QUICK, "--gpus", "7")

    assert ended.code == 3
    assert "7" in ended.stderr
    assert "GPU-b" in ended.stderr


def test_a_gpu_that_another_agent_measures_is_left_alone(agent: Agent, node: AgentNode) -> None:
    with gpu_lock(node.state_dir, "GPU-a"):
        ended = agent(*QUICK)

    assert ended.code == 4
    assert "skipped (already_running)" in ended.stdout
    assert not node.touched("GPU-a")


def test_a_busy_gpu_does_not_keep_the_others_from_being_measured(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = DeviceBusyError("somebody uses it")
    ended = agent(*QUICK, "--gpus", "all")

    assert ended.code == 0
    assert "skipped (busy)" in ended.stdout
    assert ended.stdout.count("Roofline, bfloat16") == 1


def test_a_gpu_that_breaks_leaves_what_was_measured_before(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = scripted_gpu("GPU-a", fault_at=6)
    ended = agent(*QUICK)

    assert ended.code == 1
    assert "Outcome: failed (ecc_uncorrectable)" in ended.stdout
    assert "Streaming kernels" in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_step_under_way_and_keeps_the_points(
    agent: Agent, node: AgentNode, tmp_path: Path, number: signal.Signals
) -> None:
    node.devices["GPU-a"] = scripted_gpu("GPU-a", on_step=at_step(3, lambda: signal.raise_signal(number)))
    ended = agent(*QUICK, "--gpus", "all", "--json", str(tmp_path / "r.json"))
    report = Report.model_validate(json.loads((tmp_path / "r.json").read_text()))

    assert ended.code == 1
    assert (report.outcome, report.reason) == ("measured", None)
    assert f"the rest of the sweep: given up: ended by {number.name}" in (report.detail or "")
    assert report.points
    assert not node.touched("GPU-b")


def test_a_second_signal_ends_it_within_the_step_and_keeps_the_points_too(agent: Agent, node: AgentNode) -> None:
    def insist() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    node.devices["GPU-a"] = scripted_gpu("GPU-a", on_step=at_step(3, insist))
    ended = agent(*QUICK, "--json", "-")
    report = Report.model_validate(json.loads(ended.stdout))

    assert ended.code == 1
    assert (report.outcome, report.reason) == ("failed", "interrupted")
    assert report.points


def test_insisting_outside_a_sweep_ends_it_at_once(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fleetridge_agent.commands.sweep.sweep_page", interrupted)
    ended = agent(*QUICK)

    assert ended.code == 1
    assert ended.stderr.endswith("error: interrupted\n")


def test_what_nobody_expected_is_a_failure_with_a_traceback(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise LookupError("no such thing")

    monkeypatch.setattr("fleetridge_agent.commands.sweep.sweep_page", broken)
    ended = agent(*QUICK)

    assert ended.code == 1
    assert "please report it" in ended.stderr
    assert "LookupError: no such thing" in ended.stderr


def test_a_reader_that_has_gone_ends_it_without_a_traceback(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            """Fail as a closed pipe does."""
            raise BrokenPipeError

        def fileno(self) -> int:
            """Some open file."""
            return file.fileno()

    with (tmp_path / "stdout").open("w") as file:
        monkeypatch.setattr("sys.stdout", Gone())
        ended = agent(*QUICK)

    assert ended.code == 1
    assert "Traceback" not in ended.stderr


def test_the_cpu_is_measured_when_asked_for_and_needs_no_gpu(agent: Agent, node: AgentNode) -> None:
    node.no_gpu = NoDeviceError("no gpu is visible")
    node.cpu = scripted_gpu("CPU-1")
    report = Report.model_validate(json.loads(agent(*QUICK, "--device", "cpu", "--json", "-").stdout))

    assert report.gpu is not None
    assert report.gpu.uuid == "CPU-1"
    assert report.run.roster is None


def test_an_option_that_the_device_cannot_carry_out_is_a_wrong_call(agent: Agent, node: AgentNode) -> None:
    node.devices["GPU-a"] = UsageError("--dtype: this device has no such dtype")

    assert agent(*QUICK).code == 2


def test_an_unwritable_state_directory_does_not_keep_a_person_from_measuring(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = agent(*QUICK, "--state-dir", str(tmp_path / "file"))

    assert ended.code == 0
    assert "going on without" in ended.stderr


def test_logs_can_be_json(agent: Agent) -> None:
    lines = agent(*QUICK, "--log-format", "json").stderr.splitlines()

    assert [json.loads(line)["level"] for line in lines] == ["info"]


def test_version(agent: Agent) -> None:
    ended = agent("--version")

    assert (ended.code, ended.stdout) == (0, f"fleetridge-agent {fleetridge.__version__}\n")


@pytest.mark.parametrize("arguments", [(), ("measure",), ("sweep", "--frobnicate"), ("heal",)])
def test_what_there_is_not_is_refused(agent: Agent, arguments: tuple[str, ...]) -> None:
    assert agent(*arguments).code == 2


def _busy_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that sees a process on the first gpu only."""
    process = SimpleNamespace(pid=1, usedGpuMemory=5)
    cards = [
        StubCard(uuid, f"0000:{number:02X}:00.0", "NVIDIA H200", {"ComputeRunningProcesses": listed})
        for number, (uuid, listed) in enumerate((("GPU-a", [process]), ("GPU-b", [])))
    ]
    monkeypatch.setattr("fleetridge_agent.busy.admission.nvml_or_none", lambda: open_nvml(StubNvml(*cards)))


def test_a_gpu_that_somebody_uses_is_not_touched(
    agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    _busy_nvml(monkeypatch)
    ended = agent(*QUICK, "--gpus", "all")

    assert ended.code == 0
    assert "skipped (busy)" in ended.stdout
    assert "--force" in ended.stdout
    assert not node.touched("GPU-a")
    assert node.touched("GPU-b")


def test_a_gpu_that_somebody_uses_is_measured_by_force_and_marked(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    _busy_nvml(monkeypatch)
    ended = agent(*QUICK, "--force", "--json", "-")
    report = Report.model_validate(json.loads(ended.stdout))

    assert ended.code == 0
    assert report.evidence.contended is True
    assert report.agent.arguments == ("sweep", "--square", "512", "--m-sweep", "1", "--force")


def test_a_sweep_shows_the_squares_and_weight_shapes_unless_a_profile_is_chosen(agent: Agent) -> None:
    """What the tables of a roofline are made of; `--profile standard` is what a timer measures."""
    by_hand = Report.model_validate(json.loads(agent("sweep", "--json", "-").stdout)).sweep
    standard = Report.model_validate(json.loads(agent("sweep", "--profile", "standard", "--json", "-").stdout)).sweep

    assert by_hand is not None
    assert standard is not None
    assert (by_hand.profile, by_hand.square[-1], by_hand.m_sweep[-1]) == ("standard", 16384, 16384)
    assert (standard.square, standard.m_sweep[-1]) == ((), 128)


def test_somebody_who_arrives_ends_the_sweep_with_what_was_measured(
    agent: Agent, node: AgentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetridge_agent.busy.foreign_use._WATCH_INTERVAL_S", 0.0)
    node.devices["GPU-a"] = scripted_gpu("GPU-a", arrives_after=20)
    ended = agent(*QUICK)

    assert ended.code == 4
    assert "Outcome: skipped (preempted)" in ended.stdout
    assert "Somebody else used this gpu meanwhile" in " ".join(ended.stdout.split())
