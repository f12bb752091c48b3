"""Keys by which roofs are compared."""

from __future__ import annotations

import pytest

from fleetridge.report import Roof
from fleetridge.report.roofs import settled_dtype
from support.reports import compute_roof


@pytest.mark.parametrize(
    ("allow_tf32", "chip_has_tf32", "settled"),
    [
        (True, None, "tf32"),
        (True, True, "tf32"),
        (False, None, "float32"),
        (None, None, "float32_or_tf32"),
        (None, True, "float32_or_tf32"),
        (None, False, "float32"),
        (True, False, "float32"),
    ],
)
def test_float32_alone_does_not_say_how_products_ran(
    allow_tf32: bool | None, chip_has_tf32: bool | None, settled: str
) -> None:
    """The switch decides; where it is unknown, only a chip without TF32 settles the question."""
    assert settled == settled_dtype("float32", allow_tf32=allow_tf32, chip_has_tf32=chip_has_tf32)


@pytest.mark.parametrize("dtype", ["bfloat16", "tf32", "float8_e4m3fn", "int8", "float64"])
def test_the_switch_concerns_float32_alone(dtype: str) -> None:
    """Every other dtype says what it is."""
    assert dtype == settled_dtype(dtype, allow_tf32=None, chip_has_tf32=None)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float16"},
        {"out_dtype": "float32"},
        {"fast_accumulation": True},
        {"fast_accumulation": False},
        {"regime": "sustained"},
        {"level": "l2"},
        {"kernel": "gemm_best"},
        {"kernel": None},
    ],
)
def test_roofs_that_differ_in_any_part_of_the_key_are_not_compared(change: dict[str, object]) -> None:
    """Unknown (null) is a value of its own."""
    assert Roof.model_validate(compute_roof(1.0)).key != Roof.model_validate(compute_roof(1.0, **change)).key


def test_roofs_that_differ_in_value_only_are_compared() -> None:
    """The value is not part of the key."""
    assert Roof.model_validate(compute_roof(1.0)).key == Roof.model_validate(compute_roof(2.0)).key
