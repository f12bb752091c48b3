"""
Upper bounds of what silicon can do: a rate above them was measured wrongly, by a cache or without waiting for the end.

A value between the published peak and the bound is possible (higher clocks, a cautious datasheet) and only noted. The
table holds the FLOP that one multiprocessor, or compute unit, does in one clock, dense, by architecture and dtype. It
bounds every product of an architecture: makers sell parts whose matrix units are cut (H20, GeForce with float32
accumulation), never faster ones. A pair that is not in it is not known.

Sources:
    sm_70, sm_80, sm_90: NVIDIA developer forum 244727, from the Volta, A100 and H100 white papers (64 and 256 FMA per
        tensor core, doubled again); sm_80 to sm_100 also pytorch/pytorch, torch/cuda/_device_limits.py, which cites
        table 2 of NVIDIA's H100 paper (it gives FMA; a FMA is two FLOP).
    sm_75, sm_86, sm_89, sm_103, sm_120 and dtypes that those lack: from published peaks, as SMs × boost clock × figure
        = peak: T4 40 × 1.59 GHz × 1024 = 65; A40 84 × 1.74 GHz × 1024 = 150; L40S 142 × 2.52 GHz × 1024 = 366;
        RTX PRO 6000 188 × 2.617 GHz × 1024 = 504.
    gfx908, gfx90a: ROCm/rocWMMA, MfmaPerfTraits. gfx942: AMD's CDNA 3 white paper, table 1, 304 × 2.1 GHz × 2048 =
        1307. gfx950: published peaks, 256 × 2.4 GHz × 4096 = 2517.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fleetridge.peaks import published_beta, published_pi
from fleetridge.report import RoofKey
from fleetridge_server.engine.rule import (
    ABOVE_PEERS,
    ABOVE_PUBLISHED,
    BELOW_PEERS,
    BESIDE_PEERS_LARGEST_SHARE,
    FEWEST_PEERS,
    READING_SLACK,
)
from fleetridge_server.engine.statistics import median

# Of some dozens of devices in some ten dtypes; names are the senders', so that there may be others.
_PEAKS_REMEMBERED = 1024

# A product under an unknown TF32 switch may use the faster way.
_EITHER_WAY = {"float32_or_tf32": "tf32"}

_FLOP_PER_CLOCK: Mapping[str, Mapping[str, int]] = {
    "sm_70": {"float64": 64, "float32": 128, "float16": 1024},
    "sm_75": {"float64": 4, "float32": 128, "float16": 1024, "int8": 2048},
    "sm_80": {"float64": 128, "float32": 128, "tf32": 1024, "bfloat16": 2048, "float16": 2048, "int8": 4096},
    "sm_86": {"float64": 4, "float32": 256, "tf32": 512, "bfloat16": 1024, "float16": 1024, "int8": 2048},
    "sm_89": {
        "float64": 4,
        "float32": 256,
        "tf32": 512,
        "bfloat16": 1024,
        "float16": 1024,
        "float8_e4m3fn": 2048,
        "int8": 2048,
    },
    "sm_90": {
        "float64": 256,
        "float32": 256,
        "tf32": 2048,
        "bfloat16": 4096,
        "float16": 4096,
        "float8_e4m3fn": 8192,
        "int8": 8192,
    },
    "sm_100": {
        "float64": 128,
        "float32": 256,
        "tf32": 4096,
        "bfloat16": 8192,
        "float16": 8192,
        "float8_e4m3fn": 16384,
        "int8": 16384,
    },
    "sm_103": {"tf32": 4096, "bfloat16": 8192, "float16": 8192, "float8_e4m3fn": 16384},
    "sm_120": {
        "float64": 4,
        "float32": 256,
        "tf32": 512,
        "bfloat16": 1024,
        "float16": 1024,
        "float8_e4m3fn": 2048,
        "int8": 2048,
    },
    "gfx908": {"float32": 256, "bfloat16": 512, "float16": 1024, "int8": 1024},
    "gfx90a": {"float64": 256, "float32": 256, "bfloat16": 1024, "float16": 1024, "int8": 1024},
    "gfx942": {"float64": 256, "float32": 256, "bfloat16": 2048, "float16": 2048, "float8_e4m3fn": 4096, "int8": 4096},
    "gfx950": {"bfloat16": 4096, "float16": 4096, "float8_e4m3fn": 8192, "int8": 8192},
}


def flop_per_clock(architecture: str | None, dtype: str) -> int | None:
    """
    Most FLOP of one multiprocessor in one cycle; None where it is not known. ROCm's features (`gfx90a:…`) do not
    matter.
    """
    if architecture is None:
        return None
    figures = _FLOP_PER_CLOCK.get(architecture.partition(":")[0], {})
    return figures.get(dtype) or figures.get(_EITHER_WAY.get(dtype, ""))


# Transfers a cycle of the memory clock that the driver reports, for HBM and GDDR alike (H200: 3201 MHz × 6144 bit × 2 /
# 8 = 4917 GB/s; RTX 4090: 10501 MHz × 384 bit × 2 / 8 = 1008 GB/s; MI100: 1200 MHz × 4096 bit × 2 / 8 = 1229 GB/s). An
# MI300X reports 1300 MHz for 8192 bit and 5.3 TB/s, which two transfers do not reach: there nothing is concluded.
_TRANSFERS_PER_CYCLE = 2
_TWO_TRANSFERS = re.compile(r"sm_\d+[a-z]?|gfx908|gfx90a")
_BITS_PER_BYTE = 8
_MHZ_BYTES_PER_GBPS = 1000
_MHZ_FLOP_PER_TFLOPS = 1e6


# The one partition of AMD's that is the whole card; a slice of it is no card that a datasheet describes.
_WHOLE_CARD = "SPX"


def is_whole_card(mig_profile: str | None, partition: str | None) -> bool:
    """Whether a gpu is all of a card, so that what the maker publishes is about it."""
    return mig_profile is None and (partition is None or partition.startswith(_WHOLE_CARD))


@lru_cache(_PEAKS_REMEMBERED)
def published_peak(kind: str, dtype: str, device_name: str) -> float | None:
    """What the maker publishes for a roof of the whole card, in its unit; None where that is not known."""
    peak = published_pi(device_name, dtype) if kind == "compute" else published_beta(device_name)
    return None if peak is None else peak.value


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


class Bound(NamedTuple):
    """Highest value of a roof that can be right, in its unit, and by what."""

    value: float
    reason: str


def highest_plausible(roof: RoofKey, silicon: Silicon, published: float | None) -> Bound | None:
    """
    Highest value of a roof that can be right; None where nothing is known.

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
        parts = "multiprocessors × highest clock" if roof.kind == "compute" else "memory clock × bus width"
        return Bound(READING_SLACK * possible, f"what {parts} can do")
    return (
        None if published is None else Bound(ABOVE_PUBLISHED * published, f"{ABOVE_PUBLISHED:g} × the published peak")
    )


def is_implausible(value: float, roof: RoofKey, silicon: Silicon, published: float | None) -> bool:
    """Whether a value is above what can be right; never where nothing is known."""
    highest = highest_plausible(roof, silicon, published)
    return highest is not None and value > highest.value


def far_from_peers(values: Mapping[str, float]) -> set[str]:
    """
    Gpus of one cohort whose rate is twice that of their peers, or a five-hundredth: measured or written wrongly.

    Faults make silicon slower, by less than that; what most do stands for what it can. None of fewer than four, nor
    where a quarter or more lie apart.
    """
    if len(values) < FEWEST_PEERS:
        return set()
    center = median(values.values())
    far = {gpu for gpu, own in values.items() if own > ABOVE_PEERS * center or own < BELOW_PEERS * center}
    return far if len(far) <= BESIDE_PEERS_LARGEST_SHARE * len(values) else set()
