"""
Variants of a GEMM (dtype, output, accumulation), what operands hold, and which of them a gpu really supports.

Torch emulates some that the chip does not have; those are not measured under their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleetridge.arithmetic_intensity import gemm_bytes
from fleetridge.dtypes import Dtype, dtype_named

# All that the agent knows how to multiply; which of them a device can do, the device says.
MEASURED_DTYPES = ("bfloat16", "float16", "float32", "tf32", "float8_e4m3fn", "int8")

# Element of the streams. It does not matter to memory, so it is the same whatever is multiplied: one beta per gpu.
STREAM_DTYPE = "float32"

# Only here may partial sums stay in reduced precision, which is a faster and less exact product: a roof of its own.
_WITH_FAST_ACCUMULATION = frozenset({"float8_e4m3fn"})

# First compute capability whose tensor cores know the dtype (CUDA C++ Programming Guide, table of tensor core types;
# half precision as such is older). Float8 came with 8.9 and 9.0.
_FIRST_CAPABILITY = {"bfloat16": (8, 0), "tf32": (8, 0), "int8": (7, 5), "float8_e4m3fn": (8, 9), "float16": (5, 3)}

# torch._int_mm takes M from 17 on, and K and N in steps of 8; torch._scaled_mm takes K and N in steps of 16
# (pytorch, aten/src/ATen/native/cuda/Blas.cpp and ScaledBlas.cpp).
_INT8_FEWEST_ROWS = 17
_STEP = {"int8": 8, "float8_e4m3fn": 16}

# Overrides whatever a program asks cuBLAS for (cuBLAS documentation, environment variables).
_TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"

FillKind = Literal["normal", "zeros"]


@dataclass(frozen=True, slots=True)
class Fill:
    """
    What operands hold. Random numbers draw more power than zeros, so the kind is part of what is comparable.

    Attributes:
        kind: `normal`, or `zeros` to learn whether power limits the device.
        seed: of the random numbers.
    """

    kind: FillKind = "normal"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class GemmVariant:
    """
    A variant of a GEMM: what is multiplied, into what, and how sums are accumulated.

    Attributes:
        dtype: what is multiplied, such as `bfloat16` or `tf32`.
        fast_accumulation: whether partial sums may stay in reduced precision; None where there is no such choice.
        out_dtype: element of the output; None for the one that goes with the dtype.
    """

    dtype: str
    fast_accumulation: bool | None = None
    out_dtype: str | None = None

    @property
    def format(self) -> Dtype:
        """Dtype with the element sizes in bytes of inputs and output."""
        dtype = dtype_named(self.dtype)
        return dtype if self.out_dtype is None else dtype.with_output(self.out_dtype)

    @property
    def output(self) -> str:
        """Dtype of an element of the output."""
        return self.format.output

    @property
    def title(self) -> str:
        """Name for headings, with the output where it is wider or narrower than the inputs."""
        sizes = self.format
        output = "" if sizes.output_bytes == sizes.input_bytes else f" to {sizes.output}"
        return f"{self.dtype}{output}{', fast accumulation' if self.fast_accumulation else ''}"

    def __str__(self) -> str:
        return f"{self.dtype} fast accumulation" if self.fast_accumulation else self.dtype


@dataclass(frozen=True, slots=True)
class Gemm:
    """The matrix product [M,K] × [K,N] in one variant."""

    m: int
    k: int
    n: int
    variant: GemmVariant

    @property
    def bytes(self) -> int:
        """Memory in bytes that inputs and output take together."""
        sizes = self.variant.format
        return int(gemm_bytes(self.m, self.k, self.n, input_bytes=sizes.input_bytes, output_bytes=sizes.output_bytes))

    def __str__(self) -> str:
        return f"[{self.m},{self.k}]×[{self.k},{self.n}] {self.variant}"


def variants_of(dtype: str) -> tuple[GemmVariant, ...]:
    """Variants in which a dtype is multiplied, each of which has a roof of its own."""
    if dtype in _WITH_FAST_ACCUMULATION:
        return (GemmVariant(dtype, fast_accumulation=False), GemmVariant(dtype, fast_accumulation=True))
    return (GemmVariant(dtype),)


def unsupported_reason(
    gemm: Gemm, *, capability: tuple[int, int], is_hip: bool, environ: Mapping[str, str]
) -> str | None:
    """Why a gpu cannot make a product, None where nothing is known to stand in the way."""
    dtype = gemm.variant.dtype
    first = _FIRST_CAPABILITY.get(dtype)
    if first is not None and not is_hip and capability < first:
        return f"sm_{capability[0]}{capability[1]} has no {dtype} units; they came with sm_{first[0]}{first[1]}"
    if dtype == "tf32" and is_hip:
        return "torch multiplies in float32 on this gpu, TF32 or not; measure float32"
    return _unsupported_override(dtype, environ.get(_TF32_OVERRIDE)) or _unsupported_shape(gemm)


def _unsupported_override(dtype: str, override: str | None) -> str | None:
    if (dtype == "tf32" and override == "0") or (dtype == "float32" and override == "1"):
        return f"{_TF32_OVERRIDE}={override} makes cuBLAS multiply otherwise than asked; unset it"
    return None


def _unsupported_shape(gemm: Gemm) -> str | None:
    dtype = gemm.variant.dtype
    if dtype == "int8" and gemm.m < _INT8_FEWEST_ROWS:
        return f"torch multiplies int8 from {_INT8_FEWEST_ROWS} rows on, not {gemm.m}"
    step = _STEP.get(dtype, 1)
    if gemm.k % step or gemm.n % step:
        return f"torch multiplies {dtype} with K and N in steps of {step}, not K={gemm.k}, N={gemm.n}"
    return None
