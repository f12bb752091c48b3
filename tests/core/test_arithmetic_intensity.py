"""FLOPs, bytes and their ratio, against figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge import arithmetic_intensity

sizes = st.integers(min_value=1, max_value=1_000_000)
element_bytes = st.sampled_from([1, 2, 4, 8])


def test_a_gemm_counts_a_multiplication_and_an_addition_for_each_product() -> None:
    """2·M·N·K: the count that a B300 also gives for 4096³."""
    assert arithmetic_intensity.gemm_flops(4096, 4096, 4096) == 137_438_953_472


def test_a_gemm_moves_each_operand_once() -> None:
    """An fp8 product written as bfloat16 has two element sizes."""
    assert arithmetic_intensity.gemm_bytes(3, 5, 7, input_bytes=1, output_bytes=2) == 3 * 5 + 5 * 7 + 2 * 3 * 7


def test_a_gemm_intensity_is_operations_over_bytes() -> None:
    """A square product of n³ in bfloat16 has n/3 FLOP/byte."""
    assert arithmetic_intensity.gemm_intensity(3072, 3072, 3072, input_bytes=2, output_bytes=2) == pytest.approx(1024)


@pytest.mark.parametrize(("weight_bytes", "intensity"), [(1, 2.0), (2, 1.0), (4, 0.5)])
def test_one_token_uses_each_weight_once(weight_bytes: int, intensity: float) -> None:
    """2/b."""
    assert arithmetic_intensity.decode_gemv_intensity(weight_bytes) == intensity


def test_grouped_queries_share_the_cache() -> None:
    """2g/b, with b of the cache: four query heads over an fp8 cache."""
    assert arithmetic_intensity.decode_attention_intensity(1, 4) == 8.0


def test_a_long_prompt_is_a_square_projection() -> None:
    """2Td / (b(2T + d)): T = 2048 and d = 4096 in bfloat16 give 1024."""
    intensity = arithmetic_intensity.prefill_projection_intensity(2048, 4096, input_bytes=2, output_bytes=2)

    assert intensity == pytest.approx(1024)


@given(tokens=sizes, d=sizes, size=element_bytes)
def test_a_prompt_of_one_type_keeps_the_textbook_formula(tokens: int, d: int, size: int) -> None:
    """2Td / (b(2T + d))."""
    intensity = arithmetic_intensity.prefill_projection_intensity(tokens, d, input_bytes=size, output_bytes=size)

    assert intensity == pytest.approx(2 * tokens * d / (size * (2 * tokens + d)))
