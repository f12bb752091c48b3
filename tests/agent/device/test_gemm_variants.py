from __future__ import annotations

import pytest

from fleetridge_agent.device.gemm_variants import Gemm, GemmVariant, unsupported_reason


def _refusal(
    dtype: str, capability: tuple[int, int], *, m: int = 4096, k: int = 4096, is_hip: bool = False, **environ: str
) -> str | None:
    gemm = Gemm(m, k, 4096, GemmVariant(dtype))
    return unsupported_reason(gemm, capability=capability, is_hip=is_hip, environ=environ)


@pytest.mark.parametrize(
    ("dtype", "capability"),
    [("bfloat16", (7, 5)), ("tf32", (7, 0)), ("float8_e4m3fn", (8, 6)), ("int8", (7, 0))],
)
def test_what_the_chip_does_not_have_is_refused_with_its_name(dtype: str, capability: tuple[int, int]) -> None:
    """Torch would emulate some of it, and the result would be another dtype's rate."""
    why = _refusal(dtype, capability)

    assert why is not None
    assert dtype in why


@pytest.mark.parametrize(
    ("dtype", "capability"),
    [("bfloat16", (8, 0)), ("tf32", (8, 6)), ("float8_e4m3fn", (8, 9)), ("int8", (7, 5)), ("float32", (5, 0))],
)
def test_what_the_chip_has_is_measured(dtype: str, capability: tuple[int, int]) -> None:
    """From the first chip on that has it."""
    assert _refusal(dtype, capability) is None


def test_int8_products_of_few_rows_are_refused() -> None:
    """Torch takes 17 rows and more."""
    assert _refusal("int8", (9, 0), m=16) is not None
    assert _refusal("int8", (9, 0), m=17) is None


def test_sizes_that_torch_does_not_take_are_refused() -> None:
    """Steps of 8 for int8, of 16 for float8."""
    assert _refusal("int8", (9, 0), k=4092) is not None
    assert _refusal("float8_e4m3fn", (9, 0), k=4088) is not None
    assert _refusal("float8_e4m3fn", (9, 0), m=1) is None


@pytest.mark.parametrize(("dtype", "override"), [("float32", "1"), ("tf32", "0")])
def test_a_variable_that_turns_float32_into_tf32_or_back_is_refused(dtype: str, override: str) -> None:
    """One would be measured under the other's name."""
    assert _refusal(dtype, (9, 0), NVIDIA_TF32_OVERRIDE=override) is not None
    assert _refusal("bfloat16", (9, 0), NVIDIA_TF32_OVERRIDE=override) is None


def test_amd_chips_are_not_judged_by_nvidias_numbers() -> None:
    """What they cannot do, torch says itself; but TF32 it takes and ignores."""
    assert _refusal("bfloat16", (0, 0), is_hip=True) is None
    assert _refusal("tf32", (9, 4), is_hip=True) is not None
