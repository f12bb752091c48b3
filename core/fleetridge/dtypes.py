"""The number formats that a sweep multiplies, under torch's names, and the bytes that each moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

# Bytes of one stored element. "tf32" is not here: it is a way to multiply, and its values lie in memory as float32.
ELEMENT_BYTES = {
    "float64": 8,
    "float32": 4,
    "int32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "int8": 1,
}


@dataclass(frozen=True, slots=True)
class Dtype:
    """
    How a matrix multiplication reads and writes.

    Attributes:
        name: what is multiplied, in torch's words; TF32 and an unknown TF32 switch have names of their own.
        input_bytes: bytes of one input element in memory (b_in).
        output: name of the output's element.
        output_bytes: bytes of one output element in memory (b_out).
    """

    name: str
    input_bytes: int
    output: str
    output_bytes: int

    def with_output(self, output: str) -> Dtype:
        """
        Same inputs, another output: fp8 written as fp8 instead of bfloat16.

        Raises:
            ValueError: `output` names no element that memory can hold.
        """
        if output not in ELEMENT_BYTES:
            raise ValueError(f"unknown output dtype {output!r}; choose one of {', '.join(sorted(ELEMENT_BYTES))}")
        return replace(self, output=output, output_bytes=ELEMENT_BYTES[output])


def _multiplying(name: str, *, stored_as: str, output: str) -> Dtype:
    return Dtype(name, ELEMENT_BYTES[stored_as], output, ELEMENT_BYTES[output])


# Where the output differs from the input: a float8 GEMM defaults to bfloat16 out here, since an output in float8 would
# need a scale that nobody knows beforehand; an int8 product only fits in int32.
_DTYPES = (
    _multiplying("bfloat16", stored_as="bfloat16", output="bfloat16"),
    _multiplying("float16", stored_as="float16", output="float16"),
    _multiplying("float32", stored_as="float32", output="float32"),
    _multiplying("tf32", stored_as="float32", output="float32"),
    _multiplying("float32_or_tf32", stored_as="float32", output="float32"),
    _multiplying("float64", stored_as="float64", output="float64"),
    _multiplying("float8_e4m3fn", stored_as="float8_e4m3fn", output="bfloat16"),
    _multiplying("int8", stored_as="int8", output="int32"),
)

DTYPES = {dtype.name: dtype for dtype in _DTYPES}


def dtype_named(name: str) -> Dtype:
    """
    Look a dtype up by its name.

    Raises:
        ValueError: the name is not known; the message lists those that are.
    """
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}; choose one of {', '.join(sorted(DTYPES))}")
    return DTYPES[name]
