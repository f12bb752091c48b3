"""The search for the fastest shape: many candidates roughly, in random order, then the best few in fresh blocks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from fleetridge_agent.device.product import Gemm, Product
from fleetridge_agent.measure.gemm import MeasuredGemm, measure_in_blocks, require_room, room_bytes
from fleetridge_agent.measure.reference_shapes import REFERENCE_K
from fleetridge_agent.measure.workbench import Call, Workbench
from fleetridge_agent.protocol import (
    SEARCH_CANDIDATES,
    SEARCH_FINALISTS,
    SEARCH_REPS,
    SEARCH_REST_S,
)

# Tiles of cuBLAS's large kernels in rows and columns, and numbers of waves that they fill.
_TILES = ((128, 256), (256, 128), (128, 128), (256, 256))
_WAVES = (1, 2, 3, 4, 6, 8)

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


def candidates(reference: Gemm, *, sm_count: int, seed: int) -> tuple[Gemm, ...]:
    """The reference shape and others to try, in random order: those known to be fast, and a draw of wave-fit ones."""
    product = reference.product
    draw = random.Random(seed)  # noqa: S311 # an order of measuring, no secret
    known = [Gemm(m, k, n, product) for m, k, n in _KNOWN]
    fitting = sorted(set(_wave_fit(product, sm_count)) - set(known), key=lambda gemm: (gemm.m, gemm.k, gemm.n))
    fitting = [gemm for gemm in fitting if _LEAST_WORK <= _work(gemm) / _work(reference) <= _MOST_WORK]
    drawn = draw.sample(fitting, min(len(fitting), SEARCH_CANDIDATES - len(known)))
    order = list(dict.fromkeys((reference, *known, *drawn)))
    draw.shuffle(order)
    return tuple(order)


def search(bench: Workbench, gemms: Sequence[Gemm]) -> MeasuredGemm:
    """
    Find the fastest of some shapes.

    The rough rates only choose who is measured again: the best of many noisy ones is too good to be true.
    """
    phase = f"search {gemms[0].product}"
    require_room(bench, min(gemm.bytes for gemm in gemms))
    fitting = [gemm for gemm in gemms if gemm.bytes <= room_bytes(bench)]
    rough = [(_rough_rate(bench, gemm, phase), gemm) for gemm in fitting]
    rough.sort(key=lambda one: -one[0])
    finalists = [gemm for _, gemm in rough[:SEARCH_FINALISTS]]
    confirmed = measure_in_blocks(
        bench, finalists, label="best", phase=f"best {gemms[0].product}", looks=bench.pace.looks[:1]
    )
    return max(confirmed, key=lambda one: one.point.derived_tflops)


def _rough_rate(bench: Workbench, gemm: Gemm, phase: str) -> float:
    bench.device.rest(SEARCH_REST_S)
    with bench.device.gemm(gemm, bench.fill) as launch, bench.log.phase(phase):
        ms = bench.quick_ms(Call(launch, phase), min(SEARCH_REPS, bench.pace.reps)).ms
    return _work(gemm) / ms


def _wave_fit(product: Product, sm_count: int) -> Iterator[Gemm]:
    for tile_m, tile_n in _TILES:
        for tiles in (waves * sm_count for waves in _WAVES):
            for row_tiles in (count for count in range(1, tiles + 1) if tiles % count == 0):
                m, n = row_tiles * tile_m, tiles // row_tiles * tile_n
                if _SMALLEST_SIDE <= m <= _LARGEST_M and _SMALLEST_SIDE <= n <= _LARGEST_N:
                    yield from (Gemm(m, k, n, product) for k in _KS)


def _work(gemm: Gemm) -> int:
    return gemm.m * gemm.k * gemm.n
