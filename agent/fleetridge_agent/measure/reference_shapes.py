"""
Reference shapes: the products whose rate is judged.

They depend on nothing but the device's number of multiprocessors (cores of a CPU), the way to multiply and the
protocol version, so that every gpu of a model is measured on the same work wherever and whenever that happens.

A gpu computes a product in tiles, one per multiprocessor at a time, in waves; a last wave that fills only half of the
multiprocessors wastes the other half. So the shapes are chosen to fill whole waves. Two are measured and the better
counts, because a library picks its kernel by shape and now and then picks badly.
"""

from __future__ import annotations

import math

from fleetridge_agent.device.contract import DeviceKind
from fleetridge_agent.device.product import Gemm, Product

# The tile of cuBLAS's large kernels on Ampere, Hopper and (per multiprocessor of a pair) Blackwell, in rows and
# columns. Both shapes count their row tiles even, so that tiles turned by a quarter fill the same waves.
_TILE_M = 128
_TILE_N = 256

# Row tiles and fewest waves of each shape. On 132 multiprocessors this gives 1536×11264 and 3072×2816, the fastest two
# of the shapes tried on an H200.
_ROW_TILES_AND_WAVES = ((12, 4), (24, 2))

# Long sums hide what starting and ending a tile costs; the fastest products known of H100 and H200 have about this K.
_K = 13568

# A CPU gets a cube whose work per core is always that of 1024³ on two cores, some tens of milliseconds, in steps that
# every blocking of caches and registers divides.
_CPU_STEP = 128
_CPU_STEPS_OF_TWO_CORES = 8


def reference_gemms(product: Product, *, kind: DeviceKind, sm_count: int) -> tuple[Gemm, ...]:
    """The judged shapes of one way to multiply on a device with this many multiprocessors (cores of a CPU)."""
    if kind == "cpu":
        size = _cpu_size(sm_count)
        return (Gemm(size, size, size, product),)
    return tuple(
        Gemm(row_tiles * _TILE_M, _K, _column_tiles(row_tiles, fewest_waves, sm_count) * _TILE_N, product)
        for row_tiles, fewest_waves in _ROW_TILES_AND_WAVES
    )


def _column_tiles(row_tiles: int, fewest_waves: int, sm_count: int) -> int:
    """Fewest columns of tiles with which whole waves are filled, and at least so many of them."""
    waves_per_column_set = row_tiles // math.gcd(row_tiles, sm_count)
    waves = waves_per_column_set * math.ceil(fewest_waves / waves_per_column_set)
    return waves * sm_count // row_tiles


def _cpu_size(cores: int) -> int:
    return _CPU_STEP * max(1, round(_CPU_STEPS_OF_TWO_CORES * math.pow(cores / 2, 1 / 3)))
