"""
Whether a gpu is idle, checked before anything of ours touches it: no CUDA context is made here.

Process ids may be hidden from a container, so memory and utilization are asked too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fleetridge.quantities import MIB
from fleetridge_agent.busy.foreign_use import MEMORY, PROCESSES, ProcessList
from fleetridge_agent.readings.nvml import NvmlGpu
from fleetridge_agent.readings.nvml_telemetry import processes
from fleetridge_agent.readings.optional_reading import count, reading

UTILIZATION = "utilization"

# Memory that an idle gpu may show as used: the display of a workstation, rounding of the driver; more on a large gpu.
_IDLE_BYTES = 600 * MIB
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


@dataclass(frozen=True, slots=True)
class IdleCheck:
    """
    What was seen of the use of a gpu.

    Attributes:
        why: who or what uses it, as the end of a sentence; None where nothing does or nothing can be read.
        processes: listed on it, None where the driver lists none or the list does not show who is there.
        signals: what could be read at all, of what was asked; the first that shows somebody ends the asking.
    """

    why: str | None
    processes: int | None
    signals: tuple[str, ...]


def check_idle(gpu: NvmlGpu, *, wait: Callable[[float], object] | None) -> IdleCheck:
    """
    Look who uses a gpu.

    Args:
        gpu: as NVML knows it.
        wait: pauses for some seconds between two readings of the utilization; None leaves the utilization out.
    """
    listed, why = processes(gpu), None
    signals: list[str] = []
    for signal, why in _signals(gpu, listed, wait):
        signals.append(signal)
        if why is not None:
            break
    if why is not None and not listed:
        # Somebody is there, and the list is empty: that of a container, which proves nothing.
        return IdleCheck(why, None, tuple(signal for signal in signals if signal != PROCESSES))
    return IdleCheck(why, None if listed is None else len(listed), tuple(signals))


def readable_beside_processes(gpu: NvmlGpu) -> tuple[str, ...]:
    """Signals that the driver has for this gpu, those of its list of processes left out; a slice has no utilization."""
    has_utilization = _percent(gpu) is not None
    return (*(() if memory_use(gpu) is None else (MEMORY,)), *((UTILIZATION,) if has_utilization else ()))


def _signals(
    gpu: NvmlGpu, listed: ProcessList | None, wait: Callable[[float], object] | None
) -> Iterator[tuple[str, str | None]]:
    """Signals that can be read, and who or what uses the gpu by each of them."""
    if listed is not None:
        yield PROCESSES, f"processes on it: {len(listed)}" if listed else None
    memory = memory_use(gpu)
    if memory is not None:
        is_used = memory.used > idle_bytes(memory.total)
        yield MEMORY, f"{memory.used // MIB} MiB of its memory are in use" if is_used else None
    readings = [] if wait is None else _utilization(gpu, wait)
    if readings:
        busy = sum(percent > _IDLE_PERCENT for percent in readings)
        is_busy = busy > _BUSY_SAMPLES_ALLOWED
        yield UTILIZATION, f"it worked in {busy} of {_SAMPLES} looks within 2 s" if is_busy else None


def memory_use(gpu: NvmlGpu) -> MemoryUse | None:
    """Memory that anybody uses, without what the driver reserves where it tells the two apart."""
    info = gpu.read("nvmlDeviceGetMemoryInfo", _MEMORY_V2) or gpu.read("nvmlDeviceGetMemoryInfo")
    used, total = count(reading(lambda: info.used)), count(reading(lambda: info.total))
    return None if used is None or total is None else MemoryUse(used, total)


def idle_bytes(total_bytes: int) -> int:
    """Memory up to which a gpu of this size counts as unused."""
    return max(_IDLE_BYTES, int(total_bytes * _IDLE_SHARE))


def _utilization(gpu: NvmlGpu, wait: Callable[[float], object]) -> list[int]:
    """Utilization in per cent over two seconds, as far as the driver has it."""
    percents: list[int] = []
    for _ in range(_SAMPLES):
        percent = _percent(gpu)
        if percent is None:
            break
        percents.append(percent)
        wait(_INTERVAL_S)
    return percents


def _percent(gpu: NvmlGpu) -> int | None:
    rates = gpu.read_card("nvmlDeviceGetUtilizationRates")
    return count(reading(lambda: rates.gpu))
