from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.device.product import MEASURED_DTYPES, Product
from fleetridge_agent.measure.reference_shapes import reference_gemms

_BF16 = Product("bfloat16")
_SM_COUNTS = st.integers(min_value=1, max_value=400)


def _shapes(sm_count: int) -> list[tuple[int, int, int]]:
    return [(gemm.m, gemm.n, gemm.k) for gemm in reference_gemms(_BF16, kind="cuda", sm_count=sm_count)]


@pytest.mark.parametrize(
    ("sm_count", "shapes"),
    [
        (132, [(1536, 11264, 13568), (3072, 2816, 13568)]),  # H100 SXM, H200
        (114, [(1536, 9728, 13568), (3072, 4864, 13568)]),  # H100 PCIe
        (108, [(1536, 9216, 13568), (3072, 2304, 13568)]),  # A100
        (78, [(1536, 6656, 13568), (3072, 3328, 13568)]),  # H20
        (148, [(1536, 18944, 13568), (3072, 9472, 13568)]),  # B200
        (80, [(1536, 10240, 13568), (3072, 2560, 13568)]),  # V100
        (16, [(1536, 2048, 13568), (3072, 512, 13568)]),  # a 1g slice of an H100
    ],
)
def test_the_judged_shapes_of_known_cards_never_change(sm_count: int, shapes: list[tuple[int, int, int]]) -> None:
    """A changed shape would make new results look like a change of the gpu; it needs a new protocol version."""
    assert _shapes(sm_count) == shapes


@given(sm_count=_SM_COUNTS)
def test_judged_shapes_fill_whole_waves_of_tiles(sm_count: int) -> None:
    """Tiles of 128×256 keep every multiprocessor busy to the end, and so do tiles turned by a quarter."""
    for m, n, _ in _shapes(sm_count):
        assert m % 128 == n % 256 == m % 256 == 0
        assert (m // 128) * (n // 256) % sm_count == 0


@given(sm_count=_SM_COUNTS)
def test_judged_shapes_are_no_larger_than_they_must_be(sm_count: int) -> None:
    """At most 24 waves, so that a call takes milliseconds, and at least two, so that it is no launch that is timed."""
    assert all(2 <= (m // 128) * (n // 256) // sm_count <= 24 for m, n, _ in _shapes(sm_count))


@pytest.mark.parametrize("dtype", MEASURED_DTYPES)
def test_judged_shapes_suit_every_dtype(dtype: str) -> None:
    """Sizes are multiples of 16 and have more than 16 rows, which float8 and int8 products ask for."""
    for kind in ("cuda", "cpu"):
        for gemm in reference_gemms(Product(dtype), kind=kind, sm_count=46):
            assert gemm.k % 16 == gemm.n % 16 == 0
            assert gemm.m > 16


@given(cores=st.integers(min_value=1, max_value=512))
def test_a_cpu_gets_the_same_work_per_core_whatever_its_size(cores: int) -> None:
    """The cube grows with the cores, so that a call takes about as long on two as on two hundred."""
    (gemm,) = reference_gemms(Product("float32"), kind="cpu", sm_count=cores)

    assert gemm.m == gemm.k == gemm.n
    assert gemm.m**3 / cores == pytest.approx(1024**3 / 2, rel=0.25)
