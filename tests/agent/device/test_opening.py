from __future__ import annotations

import subprocess
import sys

import pytest

from fleetridge_agent.device import opening
from fleetridge_agent.device.cuda_driver import CudaGpu
from fleetridge_agent.device.opening import chosen_gpu, open_device, visible_gpus
from fleetridge_agent.errors import ExitCode, NoDeviceError
from fleetridge_agent.node.nvml import Nvml, NvmlError, open_nvml
from support.stub_nvml import StubCard, StubNvml, StubNvmlError

_GPUS = (
    CudaGpu(0, "GPU-A10", "0000:02:00.0", "NVIDIA A10", None),
    CudaGpu(1, "GPU-T4", "0000:01:00.0", "Tesla T4", None),
)


def _without_gpus(monkeypatch: pytest.MonkeyPatch, reason: str, nvml: StubNvml) -> NoDeviceError:
    def no_gpus() -> tuple[CudaGpu, ...]:
        raise NoDeviceError("CUDA shows no gpu", reason=reason)

    def stub() -> Nvml:
        return open_nvml(nvml)

    monkeypatch.setattr(opening, "cuda_gpus", no_gpus)
    monkeypatch.setattr(opening, "open_nvml", stub)
    with pytest.raises(NoDeviceError) as caught:
        visible_gpus()
    return caught.value


def test_a_gpu_is_chosen_by_uuid_or_number() -> None:
    """The first where nothing is said."""
    assert chosen_gpu(_GPUS, "GPU-T4") == chosen_gpu(_GPUS, 1) == _GPUS[1]
    assert chosen_gpu(_GPUS, None) == _GPUS[0]


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are() -> None:
    """So that the right one can be copied from the message."""
    with pytest.raises(NoDeviceError, match="GPU-A10, NVIDIA A10"):
        chosen_gpu(_GPUS, "GPU-9")


def test_without_a_gpu_nothing_is_measured_unless_a_cpu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear sentence with the remedy, and an exit code of its own."""
    error = _without_gpus(monkeypatch, "no_device", StubNvml())

    assert "--device cpu" in str(error)
    assert (error.reason, error.exit_code) == ("no_device", ExitCode.NO_DEVICE)


@pytest.mark.parametrize(("nvml_code", "reason"), [(999, "nvml_unknown_error"), (18, "driver_library_mismatch")])
def test_what_nvml_knows_better_is_the_reason(monkeypatch: pytest.MonkeyPatch, nvml_code: int, reason: str) -> None:
    """CUDA sees nothing in a container that has lost its gpus; NVML says that it has lost them."""
    nvml = StubNvml(init_error=StubNvmlError(nvml_code, "some text"))

    assert _without_gpus(monkeypatch, "no_device", nvml).reason == reason


def test_a_card_in_mig_mode_without_a_slice_is_a_reason_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA shows no gpu; the card is healthy and waits to be split."""
    card = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H100 NVL", slices=[])

    assert _without_gpus(monkeypatch, "no_device", StubNvml(card)).reason == "mig_without_slice"


def test_a_gpu_that_is_not_ready_stays_so_though_nvml_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fabric manager has not started yet: CUDA's reason is the exact one."""
    card = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H200")

    assert _without_gpus(monkeypatch, "cuda_not_ready", StubNvml(card)).reason == "cuda_not_ready"


def test_the_cpu_is_opened_when_asked_for() -> None:
    """And says that it is one."""
    assert open_device("cpu").description.kind == "cpu"


def test_an_nvml_that_cannot_be_used_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that it would say is then unknown."""

    def broken() -> Nvml:
        raise NvmlError("NVML: not found", reason="no_driver")

    monkeypatch.setattr(opening, "open_nvml", broken)

    assert opening.nvml_or_none() is None


def test_rooms_that_measure_nothing_do_without_torch() -> None:
    """Commands that only look start at once, and run where torch is not installed."""
    rooms = ("device.opening", "measure.sweep", "measure.report_builder", "node.roster", "node.nvml_telemetry")
    imports = "\n".join(f"import fleetridge_agent.{room}" for room in rooms)
    program = f"import sys\n{imports}\nsys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
