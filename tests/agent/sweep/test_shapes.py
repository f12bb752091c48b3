from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.arithmetic_intensity import gemm_flops
from fleetridge_agent.device.gemm_variants import MEASURED_DTYPES, Gemm, GemmVariant
from fleetridge_agent.measurement_protocol import SEARCH_CANDIDATES, SEARCH_REPS, DeviceKind
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.shapes import candidates, reference_gemm
from support.scripted_device import GIB, ScriptedDevice

_BF16 = GemmVariant("bfloat16")
_SM_COUNTS = st.integers(min_value=1, max_value=400)


def _shape(sm_count: int) -> tuple[int, int, int]:
    gemm = reference_gemm(_BF16, kind="cuda", sm_count=sm_count)
    return gemm.m, gemm.n, gemm.k


@pytest.mark.parametrize(
    ("sm_count", "shape"),
    [
        (132, (4608, 5632, 13568)),  # H100 SXM, H200
        (114, (4608, 4864, 13568)),  # H100 PCIe
        (108, (4608, 4608, 13568)),  # A100
        (78, (3328, 4608, 13568)),  # H20
        (148, (3072, 9472, 13568)),  # B200
        (142, (1536, 18176, 13568)),  # L40S
        (80, (3840, 4096, 13568)),  # V100
        (304, (6144, 9728, 13568)),  # MI300X
        (16, (1536, 2048, 13568)),  # a 1g slice of an H100
    ],
)
def test_the_judged_shape_of_known_cards_never_changes(sm_count: int, shape: tuple[int, int, int]) -> None:
    """A changed shape would make new results look like a change of the gpu; it needs a new protocol version."""
    assert _shape(sm_count) == shape


@given(sm_count=_SM_COUNTS)
def test_the_judged_shape_fills_six_waves_of_tiles(sm_count: int) -> None:
    """Tiles of 128×256 keep every multiprocessor busy to the end, and so do tiles turned by a quarter."""
    m, n, _ = _shape(sm_count)

    assert m % 256 == n % 256 == 0
    assert (m // 128) * (n // 256) == 6 * sm_count


@given(sm_count=_SM_COUNTS)
def test_no_other_shape_of_as_many_tiles_is_nearer_to_a_square(sm_count: int) -> None:
    """And where two are equally near, the one with fewer rows is chosen."""
    m, n, _ = _shape(sm_count)
    tiles = 6 * sm_count
    others = [(rows * 128, tiles // rows * 256) for rows in range(2, tiles + 1, 2) if tiles % rows == 0]

    assert (abs(m - n), m) == min((abs(rows - columns), rows) for rows, columns in others)


@pytest.mark.parametrize("dtype", MEASURED_DTYPES)
def test_the_judged_shape_suits_every_dtype(dtype: str) -> None:
    """Sizes are multiples of 16 and have more than 16 rows, which float8 and int8 products ask for."""
    kinds: tuple[DeviceKind, ...] = ("cuda", "cpu")
    for kind in kinds:
        gemm = reference_gemm(GemmVariant(dtype), kind=kind, sm_count=46)
        assert gemm.k % 16 == gemm.n % 16 == 0
        assert gemm.m > 16


@given(cores=st.integers(min_value=1, max_value=512))
def test_a_cpu_gets_the_same_work_per_core_whatever_its_size(cores: int) -> None:
    """The cube grows with the cores, so that a call takes about as long on two as on two hundred."""
    gemm = reference_gemm(GemmVariant("float32"), kind="cpu", sm_count=cores)

    assert gemm.m == gemm.k == gemm.n
    assert gemm.m**3 / cores == pytest.approx(1024**3 / 2, rel=0.25)


_REFERENCE = reference_gemm(_BF16, kind="cuda", sm_count=132)
_OPTIONS = SweepOptions(mode="gemm", m_sweep=())


def _best(device: ScriptedDevice) -> float:
    (roof,) = (roof for roof in run_sweep(device, _OPTIONS).roofs if roof.kernel == "gemm_best")
    return roof.value


@given(sm_count=st.integers(min_value=1, max_value=400), seed=st.integers(min_value=0, max_value=2**63 - 1))
def test_candidates_are_many_each_once_and_the_judged_shape_is_among_them(sm_count: int, seed: int) -> None:
    """Whatever the chip; the number is bounded, so that the search is."""
    reference = reference_gemm(_BF16, kind="cuda", sm_count=sm_count)
    gemms = candidates(reference, sm_count=sm_count, seed=seed)

    assert reference in gemms
    assert len(set(gemms)) == len(gemms) <= SEARCH_CANDIDATES + 1
    assert {gemm.variant for gemm in gemms} == {_BF16}


def test_a_seed_decides_the_order() -> None:
    """A search can be repeated exactly, and no shape always follows the same other one hot."""
    first, again, other = (candidates(_REFERENCE, sm_count=132, seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_most_candidates_fill_whole_waves() -> None:
    """On 132 multiprocessors, of tiles of one of the usual sizes."""
    gemms = candidates(_REFERENCE, sm_count=132, seed=0)
    tiles = ((128, 256), (256, 128), (128, 128), (256, 256))
    fitting = [
        gemm
        for gemm in gemms
        if any(
            gemm.m % m == gemm.n % n == 0 and gemm.m // m * (gemm.n // n) % 132 in {0, 128, 129, 130, 131}
            for m, n in tiles
        )
    ]

    assert len(fitting) > len(gemms) * 0.7


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "int8"])
def test_candidates_suit_the_dtypes_that_ask_for_multiples_of_sixteen(dtype: str) -> None:
    """None would be refused for its size."""
    gemms = candidates(Gemm(4608, 13568, 5632, GemmVariant(dtype)), sm_count=132, seed=0)

    assert all(gemm.m > 16 and gemm.k % 16 == gemm.n % 16 == 0 for gemm in gemms)


def test_the_fastest_shape_is_found() -> None:
    """And what it gives in fresh blocks is the roof."""
    fast = candidates(_REFERENCE, sm_count=132, seed=0)[7]
    ms = gemm_flops(fast.m, fast.k, fast.n) / 850e12 * 1e3

    assert _best(ScriptedDevice(pi_tflops=800.0, samples={fast: [ms]})) == pytest.approx(850.0)


def test_a_lucky_shape_is_measured_once_more_before_it_counts() -> None:
    """The best of many noisy rates is too good to be true: what it gives in fresh blocks is the roof."""
    lucky = candidates(_REFERENCE, sm_count=132, seed=0)[7]
    once_ms, again_ms = (gemm_flops(lucky.m, lucky.k, lucky.n) / rate * 1e3 for rate in (950e12, 820e12))

    best = _best(ScriptedDevice(pi_tflops=800.0, samples={lucky: [once_ms] * SEARCH_REPS + [again_ms]}))

    assert best == pytest.approx(820.0)


def test_candidates_that_do_not_fit_are_not_tried() -> None:
    """A small gpu is searched among what it can hold."""
    device = ScriptedDevice(free=2 * GIB)

    assert _best(device) == pytest.approx(800.0)
    assert max(gemm.bytes for gemm in device.allocations if isinstance(gemm, Gemm)) <= GIB
