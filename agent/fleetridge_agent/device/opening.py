"""
Finds the device to measure.

`visible_gpus()` and `open_device()` are how commands come by one; neither makes a CUDA context on a gpu that is not
measured.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from fleetridge_agent.device.contract import Device, DeviceKind
from fleetridge_agent.device.cuda_driver import CudaGpu, cuda_gpus
from fleetridge_agent.device.rocm import rocm_gpus
from fleetridge_agent.errors import MigWithoutSliceError, NoDeviceError
from fleetridge_agent.node.host import Host
from fleetridge_agent.node.nvml import Nvml, NvmlError, NvmlGpu, open_nvml
from fleetridge_agent.node.visible_devices import visible

# What CUDA says where the true cause is one that NVML knows better.
_VAGUE_REASONS = frozenset({"no_device", "cuda_unknown_error", "cuda_error"})

# Neither is there a CUDA driver where the gpus are AMD's.
_NO_DRIVER = "no_driver"

_CPU_HINT = "give --device cpu to measure the CPU instead"


def visible_gpus() -> tuple[CudaGpu, ...]:
    """
    The gpus that this process may use, by their CUDA numbers; makes no context.

    Raises:
        NoDeviceError: there are none; the reason says why as exactly as driver and NVML know it.
        MigWithoutSliceError: there are some, and each is in MIG mode without a slice.
    """
    try:
        return _slices_by_nvml() or cuda_gpus()
    except NoDeviceError as error:
        if error.reason == _NO_DRIVER and Host().has_amd_gpu():
            return rocm_gpus()
        raise (_cause_by_nvml(error) if error.reason in _VAGUE_REASONS else _with_hint(error)) from error


def gpus_without_slice() -> tuple[CudaGpu, ...]:
    """Cards in MIG mode that this process may use as soon as somebody creates a slice."""
    nvml = nvml_or_none()
    return () if nvml is None else _numbered(visible(nvml.cards_without_slice(), os.environ))


def open_device(kind: DeviceKind | None = None, which: int | str | None = None) -> Device:
    """
    Open one device for measuring.

    Args:
        kind: None means a gpu; a CPU is measured only when asked for.
        which: CUDA's number or the UUID of a gpu; None means the first.

    Raises:
        NoDeviceError: there is no such device, or torch cannot use any.
        SweepError: the device is there and cannot be used; the reason says why, such as `busy` or `out_of_memory`.
    """
    _require_torch()
    if kind == "cpu":
        # Here and below: torch takes seconds to import, and commands that measure nothing do without.
        from fleetridge_agent.device.cpu_device import CpuDevice  # noqa: PLC0415 # as above

        return CpuDevice(Host(), os.environ)
    gpu = chosen_gpu(visible_gpus(), which)
    from fleetridge_agent.device.cuda_device import open_cuda  # noqa: PLC0415 # as above

    return open_cuda(gpu, nvml_or_none(), Host(), os.environ)


def chosen_gpu(gpus: Sequence[CudaGpu], which: int | str | None) -> CudaGpu:
    """
    The gpu with this CUDA number or UUID; the first where none is asked for.

    Raises:
        NoDeviceError: there is no such gpu; the message lists those that there are.
    """
    if which is None:
        return gpus[0]
    for gpu in gpus:
        if which in (gpu.number, gpu.uuid):
            return gpu
    there = ", ".join(f"{gpu.number} ({gpu.uuid}, {gpu.device})" for gpu in gpus)
    raise NoDeviceError(f"no gpu {which} is visible; choose among {there}")


def nvml_or_none() -> Nvml | None:
    """NVML, None where it cannot be used; then everything that it would say is unknown."""
    try:
        return open_nvml()
    except NvmlError:
        return None


def _slices_by_nvml() -> tuple[CudaGpu, ...]:
    """
    Gpus of a node with slices, of which CUDA shows a process the first one only; none where there are no slices.

    Raises:
        NoDeviceError: CUDA cannot use any of them.
    """
    nvml = nvml_or_none()
    gpus = () if nvml is None else visible(nvml.gpus(), os.environ)
    if not any(gpu.is_slice for gpu in gpus):
        return ()
    # Only CUDA knows whether it is ready.
    cuda_gpus()
    return _numbered(gpus)


def _numbered(gpus: Sequence[NvmlGpu]) -> tuple[CudaGpu, ...]:
    return tuple(
        CudaGpu(number, gpu.uuid, gpu.pci_bus_id, gpu.device, gpu.mig_profile) for number, gpu in enumerate(gpus)
    )


def _cause_by_nvml(error: NoDeviceError) -> NoDeviceError:
    """What NVML knows better than CUDA; CUDA's own error where NVML knows of no trouble."""
    try:
        nvml = open_nvml()
    except NvmlError as cause:
        return _with_hint(NoDeviceError(str(cause), reason=cause.reason))
    cards = nvml.cards()
    if cards and len(nvml.cards_without_slice()) == len(cards):
        return MigWithoutSliceError(
            f"every gpu is in MIG mode and has no slice; create one (`nvidia-smi mig -cgi`); {_CPU_HINT}"
        )
    return _with_hint(error)


def _with_hint(error: NoDeviceError) -> NoDeviceError:
    return NoDeviceError(f"{error}; {_CPU_HINT}", reason=error.reason)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401, PLC0415 # see open_device
    except ImportError as error:
        raise NoDeviceError(
            f"torch cannot be imported ({error}); install fleetridge[agent]", reason="torch_missing"
        ) from error
