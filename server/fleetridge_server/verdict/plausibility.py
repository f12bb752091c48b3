"""
What silicon cannot do: a rate above it was measured wrongly, by a cache or without waiting for the end.

A value between the published peak and this is possible (higher clocks, a cautious datasheet) and only noted.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge.report import RoofKey

# Clocks and counters are read with some error.
_SLACK = 1.05

# Where only the datasheet is known: its clock is rarely more than a fifth below the highest one.
_ABOVE_PUBLISHED = 1.25

# Double data rate: two transfers a cycle of the clock that the driver reports, for HBM and GDDR alike
# (H200: 3201 MHz × 6144 bit × 2 / 8 = 4917 GB/s; RTX 4090: 10501 MHz × 384 bit × 2 / 8 = 1008 GB/s).
_TRANSFERS_PER_CYCLE = 2
_BITS_PER_BYTE = 8
_MHZ_BYTES_PER_GBPS = 1000


@dataclass(frozen=True, slots=True)
class Silicon:
    """
    What a gpu says that it is made of.

    Attributes:
        sm_count, sm_clock_max_mhz: multiprocessors and the highest clock that the driver allows.
        flop_per_clock: of one multiprocessor in the roof's dtype; None where not known.
        memory_clock_max_mhz, memory_bus_bits: of its memory.
    """

    sm_count: int | None = None
    sm_clock_max_mhz: float | None = None
    flop_per_clock: float | None = None
    memory_clock_max_mhz: float | None = None
    memory_bus_bits: int | None = None

    @property
    def pi_tflops(self) -> float | None:
        """SMs × highest clock × FLOP per clock."""
        if self.sm_count is None or self.sm_clock_max_mhz is None or self.flop_per_clock is None:
            return None
        return self.sm_count * self.sm_clock_max_mhz * 1e6 * self.flop_per_clock / 1e12

    @property
    def beta_gbps(self) -> float | None:
        """Memory clock × bus width, two transfers a cycle."""
        if self.memory_clock_max_mhz is None or self.memory_bus_bits is None:
            return None
        bytes_per_cycle = self.memory_bus_bits * _TRANSFERS_PER_CYCLE / _BITS_PER_BYTE
        return self.memory_clock_max_mhz * bytes_per_cycle / _MHZ_BYTES_PER_GBPS


def highest_plausible(roof: RoofKey, silicon: Silicon, published: float | None) -> float | None:
    """
    Highest value of a judged roof that can be right, in its unit; None where nothing is known to tell by.

    Args:
        roof: its key; links and caches have no such limit.
        silicon: of the gpu.
        published: peak of the device in this roof.
    """
    if roof.level != "device":
        return None
    possible = silicon.pi_tflops if roof.kind == "compute" else silicon.beta_gbps
    if possible is not None:
        return _SLACK * possible
    return None if published is None else _ABOVE_PUBLISHED * published
