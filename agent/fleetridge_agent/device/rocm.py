"""Gpus of a ROCm build of torch, which has no driver library that could be asked without making a context."""

from __future__ import annotations

import torch

from fleetridge_agent.device.cuda_driver import CudaGpu
from fleetridge_agent.device.pci import canonical_bus_id
from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.node.readings import count, reading, text


def is_rocm() -> bool:
    """Whether torch was built for ROCm."""
    return torch.version.hip is not None


def rocm_gpus() -> tuple[CudaGpu, ...]:
    """
    The gpus that this process may use, without UUIDs: drivers give all-zero or repeated ones to some cards.

    Raises:
        NoDeviceError: there are none.
    """
    gpus = tuple(_described(number) for number in range(torch.cuda.device_count()))
    if not gpus:
        raise NoDeviceError("ROCm shows no gpu; check HIP_VISIBLE_DEVICES and what this container was given")
    return gpus


def _described(number: int) -> CudaGpu:
    properties = torch.cuda.get_device_properties(number)
    domain, bus, slot = (count(getattr(properties, f"pci_{part}_id", None)) for part in ("domain", "bus", "device"))
    # Torch tells the place of a gpu from 2.7 on.
    is_known = domain is not None and bus is not None and slot is not None
    return CudaGpu(
        number=number,
        uuid=None,
        pci_bus_id=canonical_bus_id(f"{domain:x}:{bus:x}:{slot:x}") if is_known else None,
        device=text(reading(lambda: properties.name)),
        mig_profile=None,
    )
