"""What simulated devices are made of: a few products whose figures are public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetridge.identity import canonical_device_name
from fleetridge.peaks import published_beta, published_pi

_MIB = 1024**2

# What an H200 reached of its published peaks in measurements: 842 of 989 TFLOP/s and 4430 of 4800 GB/s.
_PI_OF_PUBLISHED = 0.851
_BETA_OF_PUBLISHED = 0.923


@dataclass(frozen=True, slots=True)
class Silicon:
    """
    A product, as its driver describes it.

    Attributes:
        device: name that the driver gives.
        dtypes: that simulated agents multiply.
        sm_clock_max_mhz, memory_clock_max_mhz: the highest that the driver allows.
        sustained_clock_mhz: where the power governor settles under full load.
        gemm: M, K, N of the agents' reference shape on so many multiprocessors.
    """

    device: str
    architecture: str
    dtypes: tuple[str, ...]
    sm_count: int
    memory_bytes: int
    l2_bytes: int
    sm_clock_max_mhz: float
    sustained_clock_mhz: float
    memory_clock_max_mhz: float
    memory_bus_bits: int
    power_limit_w: float
    pcie_generation: int
    gemm: tuple[int, int, int]

    def pi_tflops(self, dtype: str) -> float:
        """Burst rate that a healthy one reaches in a dtype."""
        peak = published_pi(self.device, dtype)
        assert peak is not None  # noqa: S101 # of every dtype in the table below, which a test goes through
        return _PI_OF_PUBLISHED * peak.value

    @property
    def beta_gbps(self) -> float:
        """Rate at which a healthy one reads."""
        peak = published_beta(self.device)
        assert peak is not None  # noqa: S101 # as above
        return _BETA_OF_PUBLISHED * peak.value


# Memory, clocks, bus and limits as nvidia-smi shows them for each.
_PRODUCTS = (
    Silicon(
        device="NVIDIA H200",
        architecture="sm_90",
        dtypes=("bfloat16", "float8_e4m3fn"),
        sm_count=132,
        memory_bytes=150_754_820_096,
        l2_bytes=60 * _MIB,
        sm_clock_max_mhz=1980.0,
        sustained_clock_mhz=1470.0,
        memory_clock_max_mhz=3201.0,
        memory_bus_bits=6144,
        power_limit_w=700.0,
        pcie_generation=5,
        gemm=(4608, 13568, 5632),
    ),
    Silicon(
        device="NVIDIA H100 80GB HBM3",
        architecture="sm_90",
        dtypes=("bfloat16", "float8_e4m3fn"),
        sm_count=132,
        memory_bytes=81_559 * _MIB,
        l2_bytes=50 * _MIB,
        sm_clock_max_mhz=1980.0,
        sustained_clock_mhz=1480.0,
        memory_clock_max_mhz=2619.0,
        memory_bus_bits=5120,
        power_limit_w=700.0,
        pcie_generation=5,
        gemm=(4608, 13568, 5632),
    ),
    Silicon(
        device="NVIDIA A100-SXM4-80GB",
        architecture="sm_80",
        dtypes=("bfloat16", "tf32"),
        sm_count=108,
        memory_bytes=81_920 * _MIB,
        l2_bytes=40 * _MIB,
        sm_clock_max_mhz=1410.0,
        sustained_clock_mhz=1290.0,
        memory_clock_max_mhz=1593.0,
        memory_bus_bits=5120,
        power_limit_w=400.0,
        pcie_generation=4,
        gemm=(4608, 13568, 4608),
    ),
    Silicon(
        device="NVIDIA B200",
        architecture="sm_100",
        dtypes=("bfloat16", "float8_e4m3fn"),
        sm_count=148,
        memory_bytes=183_359 * _MIB,
        l2_bytes=126 * _MIB,
        sm_clock_max_mhz=1965.0,
        sustained_clock_mhz=1500.0,
        memory_clock_max_mhz=3996.0,
        memory_bus_bits=8192,
        power_limit_w=1000.0,
        pcie_generation=5,
        gemm=(3072, 13568, 9472),
    ),
)

PRODUCTS: Mapping[str, Silicon] = {canonical_device_name(product.device): product for product in _PRODUCTS}
"""By canonical name."""


def silicon_of(device: str) -> Silicon | None:
    """Product that a name stands for; None for one whose figures are not known here."""
    return PRODUCTS.get(canonical_device_name(device))
