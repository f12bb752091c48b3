from __future__ import annotations

import pytest
import torch

from fleetridge_agent.device.gemm_variants import Fill, Gemm, GemmVariant
from fleetridge_agent.device.interface import DeviceFaultError
from fleetridge_agent.device.kernels import GemmOperands, gemm_operands, require_correct

_CPU = torch.device("cpu")


def _operands(gemm: Gemm) -> GemmOperands:
    return gemm_operands(gemm, Fill(), _CPU)


def _gemm(dtype: str) -> Gemm:
    return Gemm(128, 1024, 192, GemmVariant(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8"])
def test_a_right_product_passes(dtype: str) -> None:
    """With the rounding that its dtype has."""
    operands = _operands(_gemm(dtype))

    assert require_correct(operands, operands.launch) <= 0.02


def test_tf32_under_the_name_of_float32_is_caught() -> None:
    """Inputs rounded to ten bits, as TF32 units do, are too far off for float32."""
    gemm = _gemm("float32")
    operands = _operands(gemm)
    a, b = (values.half().float() for values in (operands.a, operands.b))

    with pytest.raises(DeviceFaultError, match="float64"):
        require_correct(operands, lambda: a @ b.t())


def test_bfloat16_under_the_name_of_float16_is_caught() -> None:
    """The tolerance of each dtype is its own."""
    gemm = _gemm("float16")
    operands = _operands(gemm)

    def in_bfloat16() -> torch.Tensor:
        return (operands.a.bfloat16() @ operands.b.bfloat16().t()).half()

    with pytest.raises(DeviceFaultError):
        require_correct(operands, in_bfloat16)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_an_output_that_was_not_written_everywhere_is_caught(dtype: str) -> None:
    """Even where the tile that is compared is right."""
    gemm = _gemm(dtype)
    operands = _operands(gemm)

    def leave_a_hole() -> torch.Tensor:
        product = operands.launch()
        product[0, 0] = torch.nan if product.dtype.is_floating_point else torch.iinfo(product.dtype).min
        return product

    with pytest.raises(DeviceFaultError) as caught:
        require_correct(operands, leave_a_hole)

    assert caught.value.reason == "wrong_output"


def test_a_kernel_that_does_nothing_is_caught() -> None:
    """The earlier product is not there any more."""
    gemm = _gemm("float32")
    operands = _operands(gemm)
    stale = operands.launch()

    with pytest.raises(DeviceFaultError):
        require_correct(operands, lambda: stale)


def test_a_single_flipped_bit_in_the_tile_is_caught_in_int8() -> None:
    """Whole numbers are exact."""
    gemm = _gemm("int8")
    operands = _operands(gemm)

    def off_by_one() -> torch.Tensor:
        product = operands.launch()
        product[-1, -1] += 1
        return product

    with pytest.raises(DeviceFaultError):
        require_correct(operands, off_by_one)


def test_a_product_of_zeros_is_right() -> None:
    """There is no largest value to compare with, and nothing to differ from."""
    gemm = _gemm("bfloat16")

    operands = gemm_operands(gemm, Fill("zeros"), _CPU)

    assert require_correct(operands, operands.launch) == 0.0
