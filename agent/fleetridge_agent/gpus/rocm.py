"""
Gpus of a ROCm build of torch, which has no driver library that could be asked without making a context.

    python -m fleetridge_agent.gpus.rocm

prints them as JSON, so that whoever wants to know needs neither torch nor a context in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from fleetridge.module_command import module_command
from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.optional_reading import canonical_bus_id, count, reading, text

_LISTER = module_command("fleetridge_agent.gpus.rocm")

# Importing torch takes seconds, and a minute from a cold network drive.
_PATIENCE_S = 120


def rocm_gpus(lister: Sequence[str] = _LISTER) -> tuple[CudaGpu, ...]:
    """
    The gpus that this process may use, without UUIDs: drivers give all-zero or repeated ones to some cards.

    Args:
        lister: program that prints them.

    Raises:
        NoDeviceError: there are none, or torch was not built for them.
    """
    try:
        listed = subprocess.run(lister, capture_output=True, check=True, timeout=_PATIENCE_S).stdout  # noqa: S603 # ours
        gpus = tuple(CudaGpu(**gpu) for gpu in json.loads(listed))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        raise NoDeviceError(
            f"torch cannot list the gpus of this node ({type(error).__name__}); see whether "
            "`python -c 'import torch; print(torch.cuda.device_count())'` works",
            reason="rocm_error",
        ) from error
    if not gpus:
        raise NoDeviceError(
            "torch shows no AMD gpu; install its build for ROCm, and check HIP_VISIBLE_DEVICES and what this container "
            "was given"
        )
    return _distinct(gpus)


def _distinct(gpus: Sequence[CudaGpu]) -> tuple[CudaGpu, ...]:
    """Gpus that share an address, as the partitions of one card do, without it: their numbers tell them apart."""
    sharers = Counter(gpu.pci_bus_id for gpu in gpus)
    return tuple(replace(gpu, pci_bus_id=gpu.pci_bus_id if sharers[gpu.pci_bus_id] == 1 else None) for gpu in gpus)


def _described(number: int, properties: Any, host: Host) -> CudaGpu:  # noqa: ANN401 # torch's structure
    domain, bus, slot = (count(getattr(properties, f"pci_{part}_id", None)) for part in ("domain", "bus", "device"))
    # Torch tells the place of a gpu from 2.7 on.
    is_known = domain is not None and bus is not None and slot is not None
    bus_id = canonical_bus_id(f"{domain:x}:{bus:x}:{slot:x}") if is_known else None
    return CudaGpu(
        number=number,
        uuid=None,
        pci_bus_id=bus_id,
        device=text(reading(lambda: properties.name)),
        mig_profile=None,
        partition=None if bus_id is None else host.amd_partition(bus_id),
    )


def _print_all() -> None:
    import torch  # noqa: PLC0415 # in this process only

    number = torch.cuda.device_count() if torch.version.hip is not None else 0
    host = Host()
    gpus = [_described(which, torch.cuda.get_device_properties(which), host) for which in range(number)]
    sys.stdout.write(json.dumps([asdict(gpu) for gpu in gpus]))


if __name__ == "__main__":
    _print_all()
