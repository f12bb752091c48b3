from __future__ import annotations

import ctypes
import uuid
from typing import Any

import pytest

from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.gpus.cuda_driver import cuda_gpus

_UUID = uuid.UUID("4b5f1b2a-0000-0000-0000-00000000c0de")


class _Library:
    """A driver's library: the code that it starts with, and the names and addresses of its gpus."""

    def __init__(self, *gpus: tuple[bytes, bytes], start: int = 0) -> None:
        self._gpus = gpus
        self._start = start

    def cuInit(self, flags: int) -> int:  # noqa: ARG002, N802 # CUDA's name
        return self._start

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802 # CUDA's name
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int))[0] = len(self._gpus)
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:  # noqa: N802 # CUDA's name
        ctypes.cast(device, ctypes.POINTER(ctypes.c_int))[0] = number
        return 0

    def cuDeviceGetName(self, buffer: Any, length: int, device: ctypes.c_int) -> int:  # noqa: ARG002, N802 # CUDA's name
        buffer.value = self._gpus[device.value][0]
        return 0

    def cuDeviceGetPCIBusId(self, buffer: Any, length: int, device: ctypes.c_int) -> int:  # noqa: ARG002, N802 # CUDA's name
        buffer.value = self._gpus[device.value][1]
        return 0

    def cuDeviceGetUuid_v2(self, buffer: Any, device: ctypes.c_int) -> int:  # noqa: ARG002, N802 # CUDA's name
        buffer.raw = _UUID.bytes
        return 0


def test_gpus_are_described_in_the_order_of_cuda() -> None:
    """By UUID, address and name, so that they can be found in NVML's other order."""
    gpus = cuda_gpus(_Library((b"NVIDIA A10", b"0000:02:00.0"), (b"Tesla T4", b"0000:01:00.0")))

    assert [(gpu.number, gpu.device, gpu.pci_bus_id) for gpu in gpus] == [
        (0, "NVIDIA A10", "0000:02:00.0"),
        (1, "Tesla T4", "0000:01:00.0"),
    ]
    assert gpus[0].uuid == f"GPU-{_UUID}"


def test_a_slice_has_a_uuid_and_a_profile_of_its_own() -> None:
    """And the device's plain name."""
    (gpu,) = cuda_gpus(_Library((b"NVIDIA H100 NVL MIG 1g.12gb", b"0000:01:00.0")))

    assert (gpu.device, gpu.mig_profile, gpu.uuid) == ("NVIDIA H100 NVL", "1g.12gb", f"MIG-{_UUID}")


def test_a_name_that_is_not_utf8_is_replaced() -> None:
    """The gpu is measured all the same."""
    (gpu,) = cuda_gpus(_Library((b"\xf8NVIDIA A10", b"0000:01:00.0")))

    assert gpu.device == "\ufffdNVIDIA A10"


@pytest.mark.parametrize(
    ("code", "reason", "remedy"),
    [
        (802, "cuda_not_ready", "fabricmanager"),
        (803, "driver_library_mismatch", "reboot"),
        (804, "driver_too_old", "newer driver"),
        (999, "cuda_unknown_error", "Xid"),
        (100, "no_device", "CUDA_VISIBLE_DEVICES"),
        (4, "cuda_error", "nvidia-smi"),
    ],
)
def test_a_driver_that_is_not_ready_says_why_and_what_helps(code: int, reason: str, remedy: str) -> None:
    """A gpu that is there and cannot be used is not measured as 0 but reported with the reason."""
    with pytest.raises(NoDeviceError, match=remedy) as caught:
        cuda_gpus(_Library((b"NVIDIA H200", b"0000:01:00.0"), start=code))

    assert caught.value.reason == reason


def test_a_driver_without_gpus_is_no_device() -> None:
    """A clear error instead of an empty list."""
    with pytest.raises(NoDeviceError) as caught:
        cuda_gpus(_Library())

    assert caught.value.reason == "no_device"
