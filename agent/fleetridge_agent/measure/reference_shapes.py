"""
Reference shapes: the products whose rate is judged.

They depend on nothing but the device's number of multiprocessors (cores of a CPU), the way to multiply and the
protocol version, so that every gpu of a model is measured on the same work wherever and whenever that happens.

A gpu computes a product in tiles, one per multiprocessor at a time, in waves; a last wave that fills only half of the
multiprocessors wastes the other half. So the shape is chosen to fill whole waves. It is one shape: the better of two
would be a winner's pick, which two gpus make differently.
"""

from __future__ import annotations

import math

from fleetridge_agent.device.contract import DeviceKind
from fleetridge_agent.device.product import Gemm, Product

# The tile of cuBLAS's large kernels on Ampere, Hopper and (per multiprocessor of a pair) Blackwell, in rows and
# columns. The rows of tiles are even, so that tiles turned by a quarter fill the same waves.
TILE_M = 128
TILE_N = 256

# On 132 multiprocessors this gives 4608×5632: of 87 wave-fit shapes the fastest on an H200 in bfloat16 (842.6 TFLOP/s),
# with the least scatter (0.16 %), and within 2 % of the fastest found in every other dtype.
_WAVES = 6

# Long sums hide what starting and ending a tile costs; the fastest products known of H100 and H200 have about this K.
REFERENCE_K = 13568

# A CPU gets a cube whose work per core is always that of 1024³ on two cores, some tens of milliseconds, in steps that
# every blocking of caches and registers divides.
_CPU_STEP = 128
_CPU_STEPS_OF_TWO_CORES = 8


def reference_gemm(product: Product, *, kind: DeviceKind, sm_count: int) -> Gemm:
    """The judged shape of one way to multiply on a device with this many multiprocessors (cores of a CPU)."""
    if kind == "cpu":
        size = _cpu_size(sm_count)
        return Gemm(size, size, size, product)
    m, n = _most_square(_WAVES * sm_count)
    return Gemm(m, REFERENCE_K, n, product)


def _most_square(tiles: int) -> tuple[int, int]:
    """Rows and columns of the product of so many tiles that is nearest to a square; of two the one with fewer rows."""
    row_tiles = (count for count in range(2, tiles + 1, 2) if tiles % count == 0)
    sizes = [(count * TILE_M, tiles // count * TILE_N) for count in row_tiles]
    return min(sizes, key=lambda size: (abs(size[0] - size[1]), size[0]))


def _cpu_size(cores: int) -> int:
    return _CPU_STEP * max(1, round(_CPU_STEPS_OF_TWO_CORES * math.pow(cores / 2, 1 / 3)))
