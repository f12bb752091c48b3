from __future__ import annotations

import platform
from pathlib import Path

import pytest

from fleetridge.report import GemmPoint, Node, Report, Run
from fleetridge.uuid7 import uuid7
from fleetridge_agent.device.cpu import CpuDevice
from fleetridge_agent.device.gemm_variants import Fill, Gemm, GemmVariant
from fleetridge_agent.device.interface import UnsupportedError
from fleetridge_agent.readings.host import Host
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import build_report
from fleetridge_agent.sweep.results import SweepResult

_SMALL = SweepOptions(square=(32, 64), m_sweep=(), buffer_mib=1, reps=3, warmup=1)


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    """The CPU of this machine."""
    return CpuDevice(Host(), {})


@pytest.fixture(scope="module")
def result(cpu: CpuDevice) -> SweepResult:
    """A real sweep with small sizes."""
    return run_sweep(cpu, _SMALL)


def test_a_cpu_is_really_measured(result: SweepResult) -> None:
    """Every kind of roof has a rate above zero, from calls that were really made."""
    assert result.failure is None
    assert {roof.kernel for roof in result.roofs} == {
        *("gemm_reference", "read", "write", "copy", "add", "triad"),
    }
    assert all(roof.value > 0 for roof in result.roofs)
    assert all(point.reps >= 3 for point in result.points if point.reps is not None)


def test_a_cpu_goes_by_its_own_name(cpu: CpuDevice) -> None:
    """Never by that of a gpu."""
    gpu = cpu.description.gpu

    assert gpu.device == (Host().cpu_model() or f"{platform.machine()} CPU")
    assert gpu.architecture == platform.machine()
    assert gpu.uuid is not None
    assert gpu.uuid.startswith("CPU-")
    assert gpu.sm_count == Host().usable_cores()


def test_a_sweep_of_a_cpu_makes_a_report_that_the_contract_takes(cpu: CpuDevice, result: SweepResult) -> None:
    """It survives the wire whole, and says that its numbers were made with other options."""
    report = build_report(result, cpu, run=Run(run_id=uuid7(), kind="manual"), node=Node(name="n01"))

    assert Report.model_validate_json(report.canonical_json()) == report
    assert (report.outcome, report.agent.method) == ("measured", "custom")


def test_the_rate_of_a_point_follows_from_its_shape(result: SweepResult) -> None:
    """2·M·N·K over the time."""
    point = next(point for point in result.points if isinstance(point, GemmPoint) and point.M == 64)

    assert point.derived_tflops == pytest.approx(2 * 64**3 / point.ms * 1e-9)


@pytest.mark.parametrize("dtype", ["tf32", "float8_e4m3fn"])
def test_what_a_cpu_does_not_have_is_refused(cpu: CpuDevice, dtype: str) -> None:
    """Torch would compute it in another dtype; that is not measured under this one's name."""
    gemm = Gemm(32, 32, 32, GemmVariant(dtype))

    with pytest.raises(UnsupportedError):
        cpu.check_output(gemm, Fill())
    with pytest.raises(UnsupportedError), cpu.gemm(gemm, Fill()):
        pass


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8"])
def test_a_cpu_multiplies_right(cpu: CpuDevice, dtype: str) -> None:
    """Checked against float64."""
    assert cpu.check_output(Gemm(64, 256, 64, GemmVariant(dtype)), Fill()) <= 0.02


def _uuid(root: Path, environ: dict[str, str], machine_id: str = "") -> str | None:
    (root / "etc").mkdir(parents=True, exist_ok=True)
    (root / "etc/machine-id").write_text(machine_id)
    return CpuDevice(Host(root), environ).description.gpu.uuid


def test_a_cpu_keeps_its_identity_and_has_one_per_machine(tmp_path: Path) -> None:
    """The same machine id twice is the same CPU, another id another one; the id itself is not told."""
    first, again = _uuid(tmp_path, {}, "aaaa"), _uuid(tmp_path, {}, "aaaa")

    assert first == again
    assert first != _uuid(tmp_path, {}, "bbbb")
    assert first is not None
    assert "aaaa" not in first


def test_in_a_container_the_node_is_the_machine(tmp_path: Path) -> None:
    """The machine id there is the image's, and the same on every node."""
    (tmp_path / ".dockerenv").touch()
    one, other = (_uuid(tmp_path, {"NODE_NAME": name}, "of-the-image") for name in ("node-1", "node-2"))

    assert one != other
    assert one == _uuid(tmp_path, {"NODE_NAME": "node-1"}, "of-another-image")
