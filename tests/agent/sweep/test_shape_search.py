"""The search for the fastest shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.roofline import gemm_flops
from fleetridge_agent.device.product import Gemm, Product
from fleetridge_agent.protocol import SEARCH_CANDIDATES, SEARCH_REPS
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.run import run_sweep
from fleetridge_agent.sweep.shapes import candidates, reference_gemm
from support.scripted_device import GIB, ScriptedDevice

_BF16 = Product("bfloat16")
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
    assert {gemm.product for gemm in gemms} == {_BF16}


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
    gemms = candidates(Gemm(4608, 13568, 5632, Product(dtype)), sm_count=132, seed=0)

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
