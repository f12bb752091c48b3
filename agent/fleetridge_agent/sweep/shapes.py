"""
Shapes of the compute roofs: the reference whose rate is judged, and the search for the fastest, which is shown.

Reference shapes depend on nothing but the device's number of multiprocessors (cores of a CPU), the GEMM variant and
the protocol version, so that every gpu of a model is measured on the same work wherever and whenever that happens.

A gpu computes a product in tiles, one per multiprocessor at a time, in waves; a last wave that fills only half of the
multiprocessors wastes the other half. So the shape is chosen to fill whole waves. It is one shape: the better of two
would be a winner's pick, which two gpus make differently. The search tries many candidates roughly, in random order,
and then the best few in fresh blocks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from fleetridge_agent.device.gemm_variants import Gemm, GemmVariant
from fleetridge_agent.measurement_protocol import (
    SEARCH_CANDIDATES,
    SEARCH_FINALISTS,
    SEARCH_REPS,
    SEARCH_REST_S,
    DeviceKind,
)
from fleetridge_agent.sweep.call_timer import Call, CallTimer
from fleetridge_agent.sweep.gemm import MeasuredGemm, available_bytes, measure_in_blocks, require_memory

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

# Tiles of cuBLAS's large kernels in rows and columns, and numbers of waves that they fill.
_TILES = ((128, 256), (256, 128), (128, 128), (256, 256))
_SEARCH_WAVES = (1, 2, 3, 4, 6, 8)

# Narrower products are bound by memory, larger ones take longer and were never faster.
_SMALLEST_SIDE = 768
_LARGEST_M = 9216
_LARGEST_N = 20480

# Two lengths of sums beside that of the reference, which nearly always wins.
_KS = (REFERENCE_K, REFERENCE_K, 8192, 4096)

# Work of a candidate over that of the reference: shorter calls are lost to launching, longer ones to the power limit.
_LEAST_WORK, _MOST_WORK = 0.2, 1.6

# Fastest shapes [M,K]×[K,N] known of several cards: ml-engineering's table of achieved FLOPs (A100, GH200, H100, B200,
# MI300X; read 2026-08-22), mag-/gpu_benchmark (H100), and own searches on H200s in each dtype (2026-11-29).
_KNOWN = (
    (2048, 13312, 2048),
    (6144, 2816, 17920),
    (4352, 13568, 3840),
    (1536, 13568, 11264),
    (3072, 13568, 2816),
    (6144, 13568, 2816),
    (8448, 13568, 2048),
    (8448, 13568, 768),
    (8448, 13568, 4096),
    (6144, 13568, 11264),
    (4096, 13568, 8448),
    (1024, 5120, 10240),
    (1024, 4096, 15360),
    (1792, 3072, 16128),
    (10240, 8192, 15360),
)


def reference_gemm(variant: GemmVariant, *, kind: DeviceKind, sm_count: int) -> Gemm:
    """The judged shape of one GEMM variant on a device with this many multiprocessors (cores of a CPU)."""
    if kind == "cpu":
        size = _cpu_size(sm_count)
        return Gemm(size, size, size, variant)
    m, n = _most_square(_WAVES * sm_count)
    return Gemm(m, REFERENCE_K, n, variant)


def candidates(reference: Gemm, *, sm_count: int, seed: int) -> tuple[Gemm, ...]:
    """The reference shape and others to try, in random order: those known to be fast, and a draw of wave-fit ones."""
    variant = reference.variant
    draw = random.Random(seed)  # noqa: S311 # an order of measuring, no secret
    known = [Gemm(m, k, n, variant) for m, k, n in _KNOWN]
    fitting = sorted(set(_wave_fit(variant, sm_count)) - set(known), key=lambda gemm: (gemm.m, gemm.k, gemm.n))
    fitting = [gemm for gemm in fitting if _LEAST_WORK <= _work(gemm) / _work(reference) <= _MOST_WORK]
    drawn = draw.sample(fitting, min(len(fitting), SEARCH_CANDIDATES - len(known)))
    order = list(dict.fromkeys((reference, *known, *drawn)))
    draw.shuffle(order)
    return tuple(order)


def search(timer: CallTimer, gemms: Sequence[Gemm]) -> MeasuredGemm:
    """
    Find the fastest of some shapes.

    The rough rates only choose who is measured again: the best of many noisy ones is too good to be true.
    """
    phase = f"search {gemms[0].variant}"
    require_memory(timer, min(gemm.bytes for gemm in gemms))
    fitting = [gemm for gemm in gemms if gemm.bytes <= available_bytes(timer)]
    rough = [(_rough_rate(timer, gemm, phase), gemm) for gemm in fitting]
    rough.sort(key=lambda one: -one[0])
    finalists = [gemm for _, gemm in rough[:SEARCH_FINALISTS]]
    confirmed = measure_in_blocks(
        timer, finalists, label="best", phase=f"best {gemms[0].variant}", looks=timer.pace.looks[:1]
    )
    return max(confirmed, key=lambda one: one.point.derived_tflops)


def _most_square(tiles: int) -> tuple[int, int]:
    """Rows and columns of the product of so many tiles that is nearest to a square; of two the one with fewer rows."""
    row_tiles = (count for count in range(2, tiles + 1, 2) if tiles % count == 0)
    sizes = [(count * TILE_M, tiles // count * TILE_N) for count in row_tiles]
    return min(sizes, key=lambda size: (abs(size[0] - size[1]), size[0]))


def _cpu_size(cores: int) -> int:
    return _CPU_STEP * max(1, round(_CPU_STEPS_OF_TWO_CORES * math.pow(cores / 2, 1 / 3)))


def _rough_rate(timer: CallTimer, gemm: Gemm, phase: str) -> float:
    timer.device.rest(SEARCH_REST_S)
    with timer.device.gemm(gemm, timer.fill) as launch, timer.log.phase(phase):
        ms = timer.quick_ms(Call(launch, phase), min(SEARCH_REPS, timer.pace.reps)).ms
    return _work(gemm) / ms


def _wave_fit(variant: GemmVariant, sm_count: int) -> Iterator[Gemm]:
    for tile_m, tile_n in _TILES:
        for tiles in (waves * sm_count for waves in _SEARCH_WAVES):
            for row_tiles in (count for count in range(1, tiles + 1) if tiles % count == 0):
                m, n = row_tiles * tile_m, tiles // row_tiles * tile_n
                if _SMALLEST_SIDE <= m <= _LARGEST_M and _SMALLEST_SIDE <= n <= _LARGEST_N:
                    yield from (Gemm(m, k, n, variant) for k in _KS)


def _work(gemm: Gemm) -> int:
    return gemm.m * gemm.k * gemm.n
