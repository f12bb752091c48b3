"""Gpus held against a file."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from fleetridge.report import Gpu, Report
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.check.baseline import Baseline, baseline_of, read_baseline, save_baseline
from fleetridge_agent.check.measured_gpu import measured_gpu
from fleetridge_agent.check.rule import verdict_on
from fleetridge_agent.check.verdict import GpuVerdict
from fleetridge_agent.errors import UsageError
from fleetridge_agent.sweep.options import SweepOptions
from support.scripted_device import ScriptedDevice, described
from support.sweeps import swept

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


def report(uuid: str, pi_tflops: float = 800.0, *, device: str = "NVIDIA H200", foreign: int = 0) -> Report:
    gpu = Gpu(uuid=uuid, device=device, sm_count=132)
    use = ForeignUse(processes=foreign, signals=("processes",))
    scripted = ScriptedDevice(description=described(gpu=gpu), pi_tflops=pi_tflops, foreign=use)
    return swept(scripted, SweepOptions(profile="quick", force=True))


def baseline(*reports: Report) -> Baseline:
    return baseline_of(reports, at=NOW, node="n1")


def verdict(of: Report, against: Baseline, *, tolerance: float = 0.03) -> GpuVerdict:
    bands, _ = against.bands(measured_gpu(of), None if of.gpu is None else of.gpu.uuid, tolerance=tolerance)
    return verdict_on(of, bands, at=NOW)


def test_a_gpu_is_held_against_its_own_figures() -> None:
    then = baseline(report("GPU-a", 800.0), report("GPU-b", 700.0))

    assert verdict(report("GPU-b", 700.0), then).state == "ok"
    assert verdict(report("GPU-a", 700.0), then).state == "degraded"


def test_a_gpu_that_was_not_there_is_held_against_the_median_of_its_kind() -> None:
    then = baseline(*(report(f"GPU-{number}", pi) for number, pi in enumerate((700.0, 800.0, 810.0))))

    assert verdict(report("GPU-new", 780.0), then).state == "ok"
    assert verdict(report("GPU-new", 770.0), then).state == "degraded"


def test_the_tolerance_is_what_was_asked_for() -> None:
    then = baseline(report("GPU-a", 800.0))

    assert verdict(report("GPU-a", 750.0), then, tolerance=0.07).state == "ok"
    assert verdict(report("GPU-a", 750.0), then, tolerance=0.05).state == "degraded"


def test_another_device_is_unknown() -> None:
    found = verdict(report("GPU-a", device="NVIDIA H100 PCIe"), baseline(report("GPU-a")))

    assert (found.state, found.reason) == ("unknown", "no band")


def test_another_protocol_is_unknown() -> None:
    then = baseline(report("GPU-a"))
    older = then.model_copy(update={"gpus": (then.gpus[0].model_copy(update={"protocol_version": 0}),)})
    found = verdict(report("GPU-a"), older)

    assert (found.state, found.reason) == ("unknown", "other protocol")


def test_a_baseline_survives_its_file(tmp_path: Path) -> None:
    then = baseline(report("GPU-a"), report("GPU-b"))
    save_baseline(tmp_path / "base.json", then)

    assert read_baseline(tmp_path / "base.json") == then
    assert [path.name for path in tmp_path.iterdir()] == ["base.json"]


def test_a_gpu_in_company_makes_no_baseline() -> None:
    with pytest.raises(ValueError, match="measure it alone"):
        baseline(report("GPU-a", foreign=1))


def test_a_gpu_that_was_not_measured_makes_no_baseline() -> None:
    broken = swept(ScriptedDevice(fault_at=1), SweepOptions(profile="quick"))

    with pytest.raises(ValueError, match="NVIDIA H200: ecc_uncorrectable"):
        baseline(broken)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "fleetridge-baseline/2"}', b"\xff\x00"])
def test_a_file_that_is_no_baseline_is_a_wrong_call(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "base.json").write_bytes(content)

    with pytest.raises(UsageError, match=r"^--baseline: .* is no baseline; make one with --save-baseline"):
        read_baseline(tmp_path / "base.json")


def test_a_baseline_that_is_not_there_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--baseline: cannot read"):
        read_baseline(tmp_path / "absent.json")
