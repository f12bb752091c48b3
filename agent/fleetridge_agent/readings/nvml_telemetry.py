"""What NVML says of one gpu: under load, of its settings, of its health and of who uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetridge_agent.readings.evidence import Sample
from fleetridge_agent.readings.nvml import NvmlGpu
from fleetridge_agent.readings.optional_reading import count, number, switch, text

# nvml.h: nvmlClockType_t, nvmlTemperatureSensors_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t.
_CLOCK_SM = 1
_CLOCK_MEMORY = 2
_SENSOR_GPU = 0
_UNCORRECTED = 1
_SINCE_DRIVER_LOAD = 0

# nvml.h: NVML_FI_DEV_…
_FIELD_MEMORY_TEMPERATURE = 82
_FIELD_POWER_INSTANT = 186

# nvml.h: NVML_FI_DEV_PERF_POLICY_… and NVML_FI_DEV_CLOCKS_EVENT_REASON_…, accumulated in ns.
_THROTTLE_FIELDS = {
    74: "sw_power_cap",
    75: "thermal",
    76: "sync_boost",
    77: "board_limit",
    269: "sw_thermal_slowdown",
    270: "hw_thermal_slowdown",
    271: "hw_power_brake_slowdown",
}

# nvml.h: nvmlClocksEventReason…, bits of a mask. Idle (0x1) is left out: it holds nothing down that anybody wants up.
_THROTTLE_BITS = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}

# nvml.h: nvmlGpuVirtualizationMode_t.
_VIRTUALIZATION = ("bare metal", "passthrough", "vgpu", "host vgpu", "host vsga")

_MILLI = 1e-3
_NS_IN_MS = 1e-6

_PROCESS_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


class NvmlTelemetry:
    """Readings of one gpu while it works; satisfies `evidence.Telemetry`."""

    def __init__(self, gpu: NvmlGpu) -> None:
        self._gpu = gpu

    def sample(self) -> Sample:
        """Readings of this moment."""
        read = self._gpu.read_card
        fields = self._gpu.fields(_FIELD_MEMORY_TEMPERATURE, _FIELD_POWER_INSTANT)
        power = fields.get(_FIELD_POWER_INSTANT) or read("nvmlDeviceGetPowerUsage")
        return Sample(
            sm_clock_mhz=number(read("nvmlDeviceGetClockInfo", _CLOCK_SM)),
            memory_clock_mhz=number(read("nvmlDeviceGetClockInfo", _CLOCK_MEMORY)),
            power_w=number(power, scale=_MILLI),
            temperature_c=number(read("nvmlDeviceGetTemperature", _SENSOR_GPU)),
            memory_temperature_c=number(fields.get(_FIELD_MEMORY_TEMPERATURE)),
            throttle_reasons=throttle_reasons(self._reason_mask()),
            pcie_generation=count(read("nvmlDeviceGetCurrPcieLinkGeneration")),
            pcie_width=count(read("nvmlDeviceGetCurrPcieLinkWidth")),
        )

    def throttle_ms(self) -> dict[str, float]:
        """Time that each throttle reason has held since the driver was loaded."""
        fields = self._gpu.fields(*_THROTTLE_FIELDS)
        readings = {_THROTTLE_FIELDS[field]: number(value, scale=_NS_IN_MS) for field, value in fields.items()}
        return {reason: held_ms for reason, held_ms in readings.items() if held_ms is not None}

    def _reason_mask(self) -> int | None:
        # The function was renamed with driver 535; old drivers and old bindings know the second name only.
        mask = count(self._gpu.read_card("nvmlDeviceGetCurrentClocksEventReasons"))
        return count(self._gpu.read_card("nvmlDeviceGetCurrentClocksThrottleReasons")) if mask is None else mask


def throttle_reasons(mask: int | None) -> frozenset[str] | None:
    """Names of the bits of a mask that hold a clock down; None where there is no mask."""
    return None if mask is None else frozenset(name for bit, name in _THROTTLE_BITS.items() if mask & bit)


def environment_readings(gpu: NvmlGpu) -> dict[str, object]:
    """Settings and limits of a gpu, by the names of `report.Environment`."""
    read = gpu.read_card
    return {
        "vbios": text(read("nvmlDeviceGetVbiosVersion")),
        "memory_bus_bits": count(read("nvmlDeviceGetMemoryBusWidth")),
        "ecc_enabled": switch(_item(read("nvmlDeviceGetEccMode"), 0)),
        "persistence_mode": switch(read("nvmlDeviceGetPersistenceMode")),
        "virtualization": _virtualization(count(read("nvmlDeviceGetVirtualizationMode"))),
        "power_limit_w": number(read("nvmlDeviceGetEnforcedPowerLimit"), scale=_MILLI),
        "power_limit_default_w": number(read("nvmlDeviceGetPowerManagementDefaultLimit"), scale=_MILLI),
        "power_limit_max_w": number(_item(read("nvmlDeviceGetPowerManagementLimitConstraints"), 1), scale=_MILLI),
        "sm_clock_max_mhz": number(read("nvmlDeviceGetMaxClockInfo", _CLOCK_SM)),
        "memory_clock_max_mhz": number(read("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY)),
        "application_sm_clock_mhz": number(read("nvmlDeviceGetApplicationsClock", _CLOCK_SM)),
        "pcie_generation": count(read("nvmlDeviceGetMaxPcieLinkGeneration")),
        "pcie_width": count(read("nvmlDeviceGetMaxPcieLinkWidth")),
    }


def health_readings(gpu: NvmlGpu) -> dict[str, object]:
    """Memory errors and repairs of a gpu, by the names of `report.Evidence`."""
    rows = gpu.read_card("nvmlDeviceGetRemappedRows")
    return {
        "ecc_uncorrected": count(gpu.read_card("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_DRIVER_LOAD)),
        "remapped_rows_correctable": count(_item(rows, 0)),
        "remapped_rows_uncorrectable": count(_item(rows, 1)),
        "remapped_rows_pending": switch(_item(rows, 2)),
        "remapped_rows_failure": switch(_item(rows, 3)),
    }


def processes(gpu: NvmlGpu) -> Mapping[int, int | None] | None:
    """Memory in bytes that each process holds on a gpu, by process id; None where the driver lists no processes."""
    compute, *others = (gpu.read(function) for function in _PROCESS_LISTS)
    if not isinstance(compute, list):
        return None
    listed: list[Any] = [*compute, *(process for other in others if isinstance(other, list) for process in other)]
    return {process.pid: count(getattr(process, "usedGpuMemory", None)) for process in listed}


def _item(values: object, position: int) -> object:
    return values[position] if isinstance(values, list | tuple) and len(values) > position else None


def _virtualization(mode: int | None) -> str | None:
    return None if mode is None or mode >= len(_VIRTUALIZATION) else _VIRTUALIZATION[mode]
