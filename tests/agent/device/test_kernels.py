from __future__ import annotations

import pytest
import torch

from fleetridge_agent.device.kernels import gemm_operands, stream_launches
from fleetridge_agent.device.product import Fill, Gemm, Product

_CPU = torch.device("cpu")


def _gemm(dtype: str, m: int = 96, k: int = 128, n: int = 64) -> Gemm:
    return Gemm(m, k, n, Product(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "float8_e4m3fn"])
def test_a_launch_multiplies_the_operands(dtype: str) -> None:
    """Rows times the transposed weights, into the output dtype of the product."""
    gemm = _gemm(dtype)
    operands = gemm_operands(gemm, Fill(), _CPU)

    product = operands.launch()

    assert product.shape == (96, 64)
    assert str(product.dtype) == f"torch.{gemm.product.output}"
    expected = operands.a.double() @ operands.b.double().t()
    torch.testing.assert_close(product.double(), expected, rtol=0.02, atol=0.2)


def test_operands_are_normal_random_numbers() -> None:
    """Centred on zero with a deviation of one, which draws the power that real work draws."""
    operands = gemm_operands(_gemm("float32", 512, 512, 512), Fill(), _CPU)

    for values in (operands.a, operands.b):
        assert float(values.mean()) == pytest.approx(0.0, abs=0.02)
        assert float(values.std()) == pytest.approx(1.0, rel=0.02)
    assert not torch.equal(operands.a, operands.b)


def test_int8_operands_use_the_range_of_the_type() -> None:
    """Normal numbers too, rounded, and symmetric to zero."""
    values = gemm_operands(_gemm("int8", 512, 512, 512), Fill(), _CPU).a.float()

    assert float(values.std()) == pytest.approx(32.0, rel=0.02)
    assert -127 <= float(values.min()) < -100
    assert 100 < float(values.max()) <= 127


def test_float8_operands_are_normal_numbers_in_float8() -> None:
    """Drawn wider and rounded, as float8 cannot be drawn."""
    values = gemm_operands(_gemm("float8_e4m3fn", 512, 512, 512), Fill(), _CPU).a

    assert values.dtype == torch.float8_e4m3fn
    assert float(values.float().std()) == pytest.approx(1.0, rel=0.02)


def test_a_seed_decides_the_operands() -> None:
    """The same twice, and others for another seed."""
    first, again, other = (gemm_operands(_gemm("float32"), Fill(seed=seed), _CPU).a for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_operands_of_zeros_are_zeros() -> None:
    """For whoever wants to know what power does to the rate."""
    operands = gemm_operands(_gemm("bfloat16"), Fill("zeros"), _CPU)

    assert not operands.a.any()
    assert not operands.b.any()


def test_poisoned_output_holds_no_earlier_product() -> None:
    """A kernel that writes nothing is then seen to have written nothing."""
    operands = gemm_operands(_gemm("float32"), Fill(), _CPU)
    product = operands.launch()

    operands.poison()

    assert bool(product.isnan().all())


def test_stream_kernels_compute_what_their_names_say() -> None:
    """Copy, add and triad write the third buffer from the first two; read adds all of the first up."""
    launches = stream_launches(4096, Fill(), _CPU)
    copied = launches["copy"]().clone()  # type: ignore[attr-defined] # a tensor
    added = launches["add"]().clone()  # type: ignore[attr-defined] # a tensor
    tripled = launches["triad"]().clone()  # type: ignore[attr-defined] # a tensor

    torch.testing.assert_close(tripled, copied + 3.0 * (added - copied))
    torch.testing.assert_close(launches["read"](), copied.sum().reshape(1))
    assert copied.numel() * copied.element_size() == 4096


def test_stream_kernels_leave_their_sources_random() -> None:
    """Writing a constant does not make later reads read constants, which would draw less power."""
    launches = stream_launches(4096, Fill(), _CPU)
    before = float(launches["read"]())  # type: ignore[arg-type] # a tensor
    for kernel in ("write", "copy", "add", "triad"):
        launches[kernel]()

    assert float(launches["read"]()) == before  # type: ignore[arg-type] # a tensor
