from __future__ import annotations

import subprocess
import sys

import pytest

from fleetridge_agent.device.opening import open_device
from fleetridge_agent.errors import ExitCode, NoDeviceError
from fleetridge_agent.gpus import visible as opening
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.gpus.visible import chosen_gpu, visible_gpus
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.nvml import Nvml, NvmlError, open_nvml
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


def test_cards_in_mig_mode_without_a_slice_are_a_reason_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA shows no gpu; the card is healthy and waits to be split."""
    card = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H100 NVL", slices=[])
    error = _without_gpus(monkeypatch, "no_device", StubNvml(card))

    assert (error.reason, error.exit_code) == ("mig_without_slice", ExitCode.SKIPPED)
    assert [gpu.uuid for gpu in opening.gpus_without_slice()] == ["GPU-1"]


def _with_slices(monkeypatch: pytest.MonkeyPatch, visible: str | None = None) -> None:
    slices = [StubCard(f"MIG-{number}", "", "NVIDIA H100 NVL MIG 1g.12gb") for number in range(2)]
    nvml = StubNvml(
        StubCard("GPU-1", "0000:01:00.0", "NVIDIA H100 NVL", slices=slices),
        StubCard("GPU-2", "0000:02:00.0", "NVIDIA H100 NVL", slices=[]),
    )
    monkeypatch.setattr(opening, "open_nvml", lambda: open_nvml(nvml))
    monkeypatch.setattr(opening, "cuda_gpus", lambda: _GPUS[:1])
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)


def test_each_slice_is_a_gpu_though_cuda_shows_a_process_the_first_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own UUID and profile, at the address of its card; the card without a slice is none."""
    _with_slices(monkeypatch)

    assert [(gpu.uuid, gpu.mig_profile, gpu.pci_bus_id) for gpu in visible_gpus()] == [
        ("MIG-0", "1g.12gb", "0000:01:00.0"),
        ("MIG-1", "1g.12gb", "0000:01:00.0"),
    ]


def test_a_process_that_is_given_one_slice_sees_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_slices(monkeypatch, visible="MIG-1")

    assert [gpu.uuid for gpu in visible_gpus()] == ["MIG-1"]


def test_a_card_without_a_slice_that_is_hidden_from_this_process_is_not_its_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _with_slices(monkeypatch, visible="MIG-1")

    assert not opening.gpus_without_slice()


def test_slices_cannot_be_measured_while_cuda_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML lists them all the same."""

    def not_ready() -> tuple[CudaGpu, ...]:
        raise NoDeviceError("CUDA answers 802", reason="cuda_not_ready")

    _with_slices(monkeypatch)
    monkeypatch.setattr(opening, "cuda_gpus", not_ready)

    with pytest.raises(NoDeviceError) as caught:
        visible_gpus()

    assert caught.value.reason == "cuda_not_ready"


def test_without_a_driver_of_nvidia_gpus_of_amd_are_looked_for_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nobody imports torch where there are none."""

    def no_driver() -> tuple[CudaGpu, ...]:
        raise NoDeviceError("no NVIDIA driver here", reason="no_driver")

    monkeypatch.setattr(opening, "cuda_gpus", no_driver)
    monkeypatch.setattr(opening, "rocm_gpus", lambda: _GPUS)
    with pytest.raises(NoDeviceError, match="no NVIDIA driver"):
        visible_gpus()

    monkeypatch.setattr(Host, "has_amd_gpu", lambda _: True)

    assert visible_gpus() == _GPUS


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
    modules = (
        "device.opening",
        "gpus.visible",
        "readings.telemetry",
        "sweep.report",
        "sweep.run",
        "worker.launch",
    )
    imports = "\n".join(f"import fleetridge_agent.{module}" for module in modules)
    program = f"import sys\n{imports}\nsys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
