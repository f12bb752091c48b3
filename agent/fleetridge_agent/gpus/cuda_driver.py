"""
CUDA's driver library: the gpus that this process may use, in the order of their CUDA numbers.

Asking it makes no context, so nothing is taken from whoever uses the gpu; and it says why there is no gpu.
"""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass
from typing import Any

from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.readings.optional_reading import canonical_bus_id, without_profile

_LIBRARY = "libcuda.so.1"

_SUCCESS = 0

# cuda.h, CUresult.
_NO_DEVICE = 100
_REASON_OF_CODE = {
    _NO_DEVICE: ("no_device", "no gpu is visible; check CUDA_VISIBLE_DEVICES and what this container was given"),
    34: ("no_driver", "the library is a stub; install the NVIDIA driver, or let the container runtime pass it in"),
    802: (
        "cuda_not_ready",
        "the system is not ready; wait for, or start, nvidia-fabricmanager (`systemctl status nvidia-fabricmanager`)",
    ),
    803: ("driver_library_mismatch", "driver and library differ; reboot the node, or reload the kernel module"),
    804: ("driver_too_old", "this torch needs a newer driver; upgrade it, or install a torch for an older CUDA"),
    999: ("cuda_unknown_error", "restart this container or reboot the node, and look for Xid errors in `dmesg`"),
}

_NAME_BYTES = 256
_BUS_ID_BYTES = 32
_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class CudaGpu:
    """
    One gpu as CUDA sees it.

    Attributes:
        number: CUDA's own, which depends on speed and CUDA_VISIBLE_DEVICES; where there are slices, of which CUDA shows
            a process one at most, the place in the driver's order.
        uuid: with its prefix "GPU-" or "MIG-".
        device: name of the model, without the profile of a slice.
        partition: such as `CPX/NPS4` for a card that is split in another way.
    """

    number: int
    uuid: str | None
    pci_bus_id: str | None
    device: str | None
    mig_profile: str | None
    partition: str | None = None


def cuda_gpus(library: Any = None) -> tuple[CudaGpu, ...]:  # noqa: ANN401 # a C library
    """
    The gpus that this process may use.

    Args:
        library: the driver's library, or what stands for it in tests.

    Raises:
        NoDeviceError: there is no driver, it is not ready, or it shows no gpu; the reason says which.
    """
    library = _loaded() if library is None else library
    _require(library.cuInit(0))
    number_of_gpus = ctypes.c_int()
    _require(library.cuDeviceGetCount(ctypes.byref(number_of_gpus)))
    if number_of_gpus.value == 0:
        _require(_NO_DEVICE)
    return tuple(_described(library, number) for number in range(number_of_gpus.value))


def _loaded() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise NoDeviceError(
            f"no NVIDIA driver here ({_LIBRARY} is missing); install it, or let the container runtime pass it in",
            reason="no_driver",
        ) from error


def _require(code: int) -> None:
    if code != _SUCCESS:
        reason, remedy = _REASON_OF_CODE.get(code, ("cuda_error", "see whether `nvidia-smi` works on this node"))
        raise NoDeviceError(f"CUDA answers {code}: {remedy}", reason=reason)


def _described(library: Any, number: int) -> CudaGpu:  # noqa: ANN401 # a C library
    device = ctypes.c_int()
    _require(library.cuDeviceGet(ctypes.byref(device), number))
    name, profile = without_profile(_name(library, device))
    return CudaGpu(
        number=number,
        uuid=_uuid(library, device, prefix="GPU-" if profile is None else "MIG-"),
        pci_bus_id=_bus_id(library, device),
        device=name,
        mig_profile=profile,
    )


def _name(library: Any, device: ctypes.c_int) -> str | None:  # noqa: ANN401 # a C library
    buffer = ctypes.create_string_buffer(_NAME_BYTES)
    code = library.cuDeviceGetName(buffer, _NAME_BYTES, device)
    return buffer.value.decode(errors="replace") if code == _SUCCESS else None


def _bus_id(library: Any, device: ctypes.c_int) -> str | None:  # noqa: ANN401 # a C library
    buffer = ctypes.create_string_buffer(_BUS_ID_BYTES)
    code = library.cuDeviceGetPCIBusId(buffer, _BUS_ID_BYTES, device)
    return canonical_bus_id(buffer.value.decode(errors="replace")) if code == _SUCCESS else None


def _uuid(library: Any, device: ctypes.c_int, *, prefix: str) -> str | None:  # noqa: ANN401 # a C library
    buffer = ctypes.create_string_buffer(_UUID_BYTES)
    # The second version alone tells slices of one card apart.
    code = library.cuDeviceGetUuid_v2(buffer, device)
    return f"{prefix}{uuid.UUID(bytes=buffer.raw[:_UUID_BYTES])}" if code == _SUCCESS else None
