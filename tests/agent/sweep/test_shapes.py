from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.device.product import MEASURED_DTYPES, Product
from fleetridge_agent.protocol import DeviceKind
from fleetridge_agent.sweep.shapes import reference_gemm

_BF16 = Product("bfloat16")
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
        gemm = reference_gemm(Product(dtype), kind=kind, sm_count=46)
        assert gemm.k % 16 == gemm.n % 16 == 0
        assert gemm.m > 16


@given(cores=st.integers(min_value=1, max_value=512))
def test_a_cpu_gets_the_same_work_per_core_whatever_its_size(cores: int) -> None:
    """The cube grows with the cores, so that a call takes about as long on two as on two hundred."""
    gemm = reference_gemm(Product("float32"), kind="cpu", sm_count=cores)

    assert gemm.m == gemm.k == gemm.n
    assert gemm.m**3 / cores == pytest.approx(1024**3 / 2, rel=0.25)
