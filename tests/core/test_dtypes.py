"""The number formats that a sweep multiplies."""

from __future__ import annotations

import pytest

from fleetridge.dtypes import DTYPES, dtype_named


@pytest.mark.parametrize(
    ("name", "input_bytes", "output", "output_bytes"),
    [
        ("bfloat16", 2, "bfloat16", 2),
        ("float16", 2, "float16", 2),
        ("float32", 4, "float32", 4),
        ("tf32", 4, "float32", 4),
        ("float32_or_tf32", 4, "float32", 4),
        ("float64", 8, "float64", 8),
        ("float8_e4m3fn", 1, "bfloat16", 2),
        ("int8", 1, "int32", 4),
    ],
)
def test_a_dtype_says_what_it_reads_and_what_it_writes(
    name: str, input_bytes: int, output: str, output_bytes: int
) -> None:
    """TF32 lies in memory as float32, float8 comes out as bfloat16, int8 as int32."""
    dtype = dtype_named(name)

    assert (input_bytes, output, output_bytes) == (dtype.input_bytes, dtype.output, dtype.output_bytes)


def test_a_dtype_is_found_under_its_own_name() -> None:
    """The catalogue and its entries agree."""
    assert list(DTYPES) == [dtype.name for dtype in DTYPES.values()]


def test_fp8_may_be_written_as_fp8() -> None:
    """Only the output changes."""
    dtype = dtype_named("float8_e4m3fn").with_output("float8_e4m3fn")

    assert (
        dtype.name,
        dtype.input_bytes,
        dtype.output,
        dtype.output_bytes,
    ) == ("float8_e4m3fn", 1, "float8_e4m3fn", 1)


def test_an_unknown_dtype_is_answered_with_the_known_ones() -> None:
    """The message names what may be asked for."""
    with pytest.raises(ValueError, match=r"'bf16'.*bfloat16, float16, float32, float32_or_tf32, float64.*int8, tf32"):
        dtype_named("bf16")


def test_tf32_is_no_way_to_store_an_output() -> None:
    """It is a way to multiply; the message names what memory can hold."""
    with pytest.raises(ValueError, match=r"'tf32'.*bfloat16.*int32"):
        dtype_named("tf32").with_output("tf32")
