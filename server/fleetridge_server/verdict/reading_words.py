"""What readings, settings and their values are called in sentences; programs know them by their names in reports."""

from __future__ import annotations

from collections.abc import Mapping

_READINGS: Mapping[str, str] = {
    "power_limit_w": "power limit",
    "power_w": "power draw",
    "sm_clock_mhz": "SM clock",
    "memory_clock_mhz": "memory clock",
    "temperature_c": "temperature",
    "trend": "trend within the run",
    "per_ghz": "rate",
    "pcie_generation": "PCIe generation",
    "pcie_width": "PCIe lanes",
    "ecc_enabled": "ECC",
    "cublas": "cuBLAS",
    "vbios": "VBIOS",
    "remapped_rows_pending": "memory repair pending",
}

# Throttle counters as `nvidia-smi -q` spells them.
_ABBREVIATIONS = {"sw": "SW", "hw": "HW"}

# Values of settings are kept without their unit.
_UNITS = {"power_limit_w": "W"}
_UNKNOWN = "unknown"


def gpu_count(number: int) -> str:
    """A number of gpus: "1 gpu", "8 gpus"."""
    return "1 gpu" if number == 1 else f"{number} gpus"


def reading_words(name: str) -> str:
    """A reading by its name in reports: "temperature", "SW thermal slowdown"."""
    return _READINGS.get(name) or " ".join(_ABBREVIATIONS.get(word, word) for word in name.split("_"))


def setting_words(factor: str, value: str) -> str:
    """A setting with its value: "driver 580.95.05", "power limit 500 W", "ECC on"."""
    return f"{reading_words(factor)} {value_words(factor, value)}"


def value_words(factor: str, value: str) -> str:
    """Value of a setting with its unit."""
    return f"{value} {_UNITS[factor]}" if factor in _UNITS and value != _UNKNOWN else value
