"""Opens the device to measure, with torch; makes no CUDA context on a gpu that is not measured."""

import os

from fleetridge_agent.device.interface import Device
from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.gpus.discovery import chosen_gpu, nvml_or_none, visible_gpus
from fleetridge_agent.measurement_protocol import DeviceKind
from fleetridge_agent.readings.host import Host


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
        from fleetridge_agent.device.cpu import CpuDevice  # noqa: PLC0415 # as above

        return CpuDevice(Host(), os.environ)
    gpu = chosen_gpu(visible_gpus(), which)
    from fleetridge_agent.device.cuda import open_cuda  # noqa: PLC0415 # as above

    return open_cuda(gpu, nvml_or_none(), Host(), os.environ)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401, PLC0415 # see open_device
    except ImportError as error:
        raise NoDeviceError(
            f"torch cannot be imported ({error}); install fleetridge[agent]", reason="torch_missing"
        ) from error
