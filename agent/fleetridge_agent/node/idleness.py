"""
Whether somebody uses a gpu, told before anything of ours touches it: no CUDA context is made here.

Process ids may be hidden from a container, so memory and utilization are asked too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetridge_agent.node.nvml import NvmlGpu
from fleetridge_agent.node.nvml_telemetry import processes
from fleetridge_agent.node.readings import count, reading

_MIB = 1024**2

# Memory that an idle gpu may show as used: the display of a workstation, rounding of the driver; more on a large gpu.
_IDLE_BYTES = 600 * _MIB
_IDLE_SHARE = 0.015

# Utilization is that of the last sixth of a second or more, so 2 s at 10 Hz show work that comes and goes; one sample
# may be busy, as another tool that reads the gpu makes it so for a moment.
_SAMPLES = 20
_INTERVAL_S = 0.1
_IDLE_PERCENT = 3
_BUSY_SAMPLES_ALLOWED = 1

# nvml.h: nvmlMemory_v2, the version with what the driver itself reserves apart from what is used.
_MEMORY_V2 = 0x02000028


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of a gpu in bytes, used by anybody and there at all."""

    used: int
    total: int


def why_busy(gpu: NvmlGpu, *, wait: Callable[[float], object] | None) -> str | None:
    """
    Who or what uses a gpu, as the end of a sentence; None where nothing does or nothing can be read.

    Args:
        gpu: as NVML knows it.
        wait: pauses for some seconds between two readings of the utilization; None leaves the utilization out.
    """
    return _by_processes(gpu) or _by_memory(gpu) or (None if wait is None else _by_utilization(gpu, wait))


def memory_use(gpu: NvmlGpu) -> MemoryUse | None:
    """Memory that anybody uses, without what the driver reserves where it tells the two apart."""
    info = gpu.read("nvmlDeviceGetMemoryInfo", _MEMORY_V2) or gpu.read("nvmlDeviceGetMemoryInfo")
    used, total = count(reading(lambda: info.used)), count(reading(lambda: info.total))
    return None if used is None or total is None else MemoryUse(used, total)


def idle_bytes(total_bytes: int) -> int:
    """Memory up to which a gpu of this size counts as unused."""
    return max(_IDLE_BYTES, int(total_bytes * _IDLE_SHARE))


def _by_processes(gpu: NvmlGpu) -> str | None:
    others = processes(gpu)
    return f"processes on it: {len(others)}" if others else None


def _by_memory(gpu: NvmlGpu) -> str | None:
    memory = memory_use(gpu)
    if memory is None or memory.used <= idle_bytes(memory.total):
        return None
    return f"{memory.used // _MIB} MiB of its memory are in use"


def _by_utilization(gpu: NvmlGpu, wait: Callable[[float], object]) -> str | None:
    busy = 0
    for _ in range(_SAMPLES):
        rates = gpu.read_card("nvmlDeviceGetUtilizationRates")
        used = count(reading(lambda rates=rates: rates.gpu))
        busy += used is not None and used > _IDLE_PERCENT
        wait(_INTERVAL_S)
    return f"it worked in {busy} of {_SAMPLES} looks within 2 s" if busy > _BUSY_SAMPLES_ALLOWED else None
