from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleetridge_agent.errors import ExitCode, NoDeviceError
from fleetridge_agent.gpus import discovery
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.gpus.discovery import chosen_gpu, node_roster, visible, visible_gpus
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.nvml import Nvml, NvmlError, open_nvml
from fleetridge_agent.sweep.device_sweep import open_device
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

    monkeypatch.setattr(discovery, "cuda_gpus", no_gpus)
    monkeypatch.setattr(discovery, "open_nvml", stub)
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
    assert [gpu.uuid for gpu in discovery.gpus_without_slice()] == ["GPU-1"]


def _with_slices(monkeypatch: pytest.MonkeyPatch, visible: str | None = None) -> None:
    slices = [StubCard(f"MIG-{number}", "", "NVIDIA H100 NVL MIG 1g.12gb") for number in range(2)]
    nvml = StubNvml(
        StubCard("GPU-1", "0000:01:00.0", "NVIDIA H100 NVL", slices=slices),
        StubCard("GPU-2", "0000:02:00.0", "NVIDIA H100 NVL", slices=[]),
    )
    monkeypatch.setattr(discovery, "open_nvml", lambda: open_nvml(nvml))
    monkeypatch.setattr(discovery, "cuda_gpus", lambda: _GPUS[:1])
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

    assert not discovery.gpus_without_slice()


def test_slices_cannot_be_measured_while_cuda_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML lists them all the same."""

    def not_ready() -> tuple[CudaGpu, ...]:
        raise NoDeviceError("CUDA answers 802", reason="cuda_not_ready")

    _with_slices(monkeypatch)
    monkeypatch.setattr(discovery, "cuda_gpus", not_ready)

    with pytest.raises(NoDeviceError) as caught:
        visible_gpus()

    assert caught.value.reason == "cuda_not_ready"


def test_without_a_driver_of_nvidia_gpus_of_amd_are_looked_for_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nobody imports torch where there are none."""

    def no_driver() -> tuple[CudaGpu, ...]:
        raise NoDeviceError("no NVIDIA driver here", reason="no_driver")

    monkeypatch.setattr(discovery, "cuda_gpus", no_driver)
    monkeypatch.setattr(discovery, "rocm_gpus", lambda: _GPUS)
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

    monkeypatch.setattr(discovery, "open_nvml", broken)

    assert discovery.nvml_or_none() is None


def test_modules_that_measure_nothing_do_without_torch() -> None:
    """Commands that only look start at once, and run where torch is not installed."""
    modules = (
        "gpus.discovery",
        "readings.nvml_telemetry",
        "sweep.report",
        "sweep.device_sweep",
        "worker.launcher",
    )
    imports = "\n".join(f"import fleetridge_agent.{module}" for module in modules)
    program = f"import sys\n{imports}\nsys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


_SLICES = [StubCard(f"MIG-{number}c0ffee", "", "NVIDIA H100 NVL MIG 1g.12gb") for number in range(2)]
_NVML = open_nvml(
    StubNvml(
        StubCard("GPU-aaaa", "0000:01:00.0", "NVIDIA H100 NVL"),
        StubCard("GPU-bbbb", "0000:02:00.0", "NVIDIA H100 NVL", slices=_SLICES),
    )
)


@pytest.mark.parametrize(
    ("environ", "uuids"),
    [
        ({}, ["GPU-aaaa", "MIG-0c0ffee", "MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1c0ffee"}, ["MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1, GPU-aa"}, ["MIG-1c0ffee", "GPU-aaaa"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["MIG-0c0ffee", "MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}, ["MIG-0c0ffee", "MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "0,0"}, ["GPU-aaaa"]),
        ({"CUDA_VISIBLE_DEVICES": "0,7,1"}, ["GPU-aaaa"]),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_the_variable_leaves_what_it_names(environ: dict[str, str], uuids: list[str]) -> None:
    assert [gpu.uuid for gpu in visible(_NVML.gpus(), environ)] == uuids


def _cards(number: int) -> StubNvml:
    return StubNvml(*(StubCard(f"GPU-{card}", f"0000:{card:02x}:00.0", "NVIDIA H200") for card in range(number)))


def _host(root: Path, gpus_on_bus: int, *, in_container: bool) -> Host:
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for number in range(gpus_on_bus):
        (devices / f"{number}").mkdir()
        (devices / f"{number}/vendor").write_text("0x10de\n")
        (devices / f"{number}/class").write_text("0x030200\n")
    if in_container:
        (root / ".dockerenv").touch()
    return Host(root)


def test_every_gpu_of_the_node_is_listed_measured_or_not(tmp_path: Path) -> None:
    """With identity, place, index and name; CUDA_VISIBLE_DEVICES hides nothing from the driver."""
    host = _host(tmp_path, 2, in_container=False)

    roster = node_roster(open_nvml(_cards(2)), host, {"CUDA_VISIBLE_DEVICES": "1"})

    assert roster.gpus is not None
    assert [(gpu.uuid, gpu.index, gpu.pci_bus_id, gpu.device) for gpu in roster.gpus] == [
        ("GPU-0", 0, "0000:00:00.0", "NVIDIA H200"),
        ("GPU-1", 1, "0000:01:00.0", "NVIDIA H200"),
    ]
    assert roster.is_complete is True


@pytest.mark.parametrize(
    ("listed", "on_bus", "in_container", "environ", "is_complete"),
    [
        (8, 8, True, {}, True),  # the container was given all of them
        (2, 8, True, {}, False),  # or some
        (2, 8, False, {"SLURM_JOB_ID": "1"}, False),  # a job sees its own only
        (7, 8, False, {}, True),  # on the bare host the eighth is not hidden, but lost
    ],
)
def test_a_list_is_complete_unless_something_hides_gpus(
    tmp_path: Path, listed: int, on_bus: int, in_container: bool, environ: dict[str, str], is_complete: bool
) -> None:
    """Only then may a reader conclude that a gpu has gone."""
    host = _host(tmp_path, on_bus, in_container=in_container)

    assert node_roster(open_nvml(_cards(listed)), host, environ).is_complete is is_complete


def test_in_a_container_that_does_not_show_the_bus_nobody_can_tell(tmp_path: Path) -> None:
    """Unknown is not complete."""
    (tmp_path / ".dockerenv").touch()

    assert node_roster(open_nvml(_cards(2)), Host(tmp_path), {}).is_complete is None


def test_a_driver_that_cannot_be_asked_gives_no_list(tmp_path: Path) -> None:
    """Which is not an empty one."""
    roster = node_roster(None, Host(tmp_path), {})

    assert (roster.gpus, roster.is_complete) == (None, None)


def test_a_split_card_is_listed_by_its_slices_or_by_itself(tmp_path: Path) -> None:
    """Without a slice it cannot be measured, but it is there."""
    piece = StubCard("MIG-1", "", "NVIDIA H100 NVL MIG 1g.12gb")
    split = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H100 NVL", slices=[piece])
    empty = StubCard("GPU-2", "0000:02:00.0", "NVIDIA H100 NVL", slices=[])

    roster = node_roster(open_nvml(StubNvml(split, empty)), Host(tmp_path), {})

    assert roster.gpus is not None
    assert [(gpu.uuid, gpu.mig_profile) for gpu in roster.gpus] == [("MIG-1", "1g.12gb"), ("GPU-2", None)]
