"""
What silicon cannot do: a rate above it was measured wrongly, by a cache or without waiting for the end.

A value between the published peak and this is possible (higher clocks, a cautious datasheet) and only noted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleetridge.report import RoofKey
from fleetridge_server.verdict.flop_per_clock import flop_per_clock

# Clocks and counters are read with some error.
_SLACK = 1.05

# Where only the datasheet is known: its clock is rarely more than a fifth below the highest one.
_ABOVE_PUBLISHED = 1.25

# Transfers a cycle of the memory clock that the driver reports, for HBM and GDDR alike (H200: 3201 MHz × 6144 bit × 2 /
# 8 = 4917 GB/s; RTX 4090: 10501 MHz × 384 bit × 2 / 8 = 1008 GB/s; MI100: 1200 MHz × 4096 bit × 2 / 8 = 1229 GB/s). An
# MI300X reports 1300 MHz for 8192 bit and 5.3 TB/s, which two transfers do not reach: there nothing is concluded.
_TRANSFERS_PER_CYCLE = 2
_TWO_TRANSFERS = re.compile(r"sm_\d+[a-z]?|gfx908|gfx90a")
_BITS_PER_BYTE = 8
_MHZ_BYTES_PER_GBPS = 1000
_MHZ_FLOP_PER_TFLOPS = 1e6


@dataclass(frozen=True, slots=True)
class Silicon:
    """
    What a gpu says that it is made of: `gpu.architecture`, `gpu.sm_count` and the `environment` of a report.

    Attributes:
        sm_count, sm_clock_max_mhz: multiprocessors and the highest clock that the driver allows.
        architecture: such as `sm_90`; None is taken for one of NVIDIA's as far as memory goes.
        memory_clock_max_mhz, memory_bus_bits: of its memory.
    """

    sm_count: int | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    memory_bus_bits: int | None = None
    architecture: str | None = None

    def pi_tflops(self, dtype: str) -> float | None:
        """SMs × highest clock × FLOP per clock; None where one of them is not known, or 0."""
        per_clock = flop_per_clock(self.architecture, dtype)
        if not self.sm_count or not self.sm_clock_max_mhz or per_clock is None:
            return None
        return self.sm_count * self.sm_clock_max_mhz * per_clock / _MHZ_FLOP_PER_TFLOPS

    @property
    def beta_gbps(self) -> float | None:
        """Memory clock × bus width, two transfers a cycle; None where that is not known."""
        if not self.memory_clock_max_mhz or not self.memory_bus_bits or not self._has_two_transfers:
            return None
        bytes_per_cycle = self.memory_bus_bits * _TRANSFERS_PER_CYCLE / _BITS_PER_BYTE
        return self.memory_clock_max_mhz * bytes_per_cycle / _MHZ_BYTES_PER_GBPS

    @property
    def _has_two_transfers(self) -> bool:
        if self.architecture is None:
            return True
        return _TWO_TRANSFERS.fullmatch(self.architecture.partition(":")[0]) is not None


def highest_plausible(roof: RoofKey, silicon: Silicon, published: float | None) -> float | None:
    """
    Highest value of a roof that can be right, in its unit; None where nothing is known to tell by.

    1.05 × what the silicon can do by its clocks, or 1.25 × the published peak where that is not known. A report's value
    above it is implausible.

    Args:
        roof: its key; links and caches have no such limit.
        silicon: of the gpu, as the report says.
        published: peak of the device in this roof, for a whole card; None for a part of one.
    """
    if roof.level != "device":
        return None
    possible = silicon.pi_tflops(roof.dtype) if roof.kind == "compute" else silicon.beta_gbps
    if possible is not None:
        return _SLACK * possible
    return None if published is None else _ABOVE_PUBLISHED * published


def is_implausible(value: float, roof: RoofKey, silicon: Silicon, published: float | None) -> bool:
    """Whether a value is above what can be right; never where nothing is known."""
    highest = highest_plausible(roof, silicon, published)
    return highest is not None and value > highest
