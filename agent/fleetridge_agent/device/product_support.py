"""
Which products a gpu can really make.

Torch emulates some that the chip does not have; those are not measured under their name.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetridge_agent.device.product import Gemm

# First compute capability whose tensor cores know the dtype (CUDA C++ Programming Guide, table of tensor core types;
# half precision as such is older). Float8 came with 8.9 and 9.0.
_FIRST_CAPABILITY = {"bfloat16": (8, 0), "tf32": (8, 0), "int8": (7, 5), "float8_e4m3fn": (8, 9), "float16": (5, 3)}

# torch._int_mm takes M from 17 on, and K and N in steps of 8; torch._scaled_mm takes K and N in steps of 16
# (pytorch, aten/src/ATen/native/cuda/Blas.cpp and ScaledBlas.cpp).
_INT8_FEWEST_ROWS = 17
_STEP = {"int8": 8, "float8_e4m3fn": 16}

# Overrides whatever a program asks cuBLAS for (cuBLAS documentation, environment variables).
_TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"


def refusal(gemm: Gemm, *, capability: tuple[int, int], is_hip: bool, environ: Mapping[str, str]) -> str | None:
    """Why a gpu cannot make a product, None where nothing is known to stand in the way."""
    dtype = gemm.product.dtype
    first = _FIRST_CAPABILITY.get(dtype)
    if first is not None and not is_hip and capability < first:
        return f"sm_{capability[0]}{capability[1]} has no {dtype} units; they came with sm_{first[0]}{first[1]}"
    if dtype == "tf32" and is_hip:
        return "torch multiplies in float32 on this gpu, TF32 or not; measure float32"
    return _override_refusal(dtype, environ.get(_TF32_OVERRIDE)) or _shape_refusal(gemm)


def _override_refusal(dtype: str, override: str | None) -> str | None:
    if (dtype == "tf32" and override == "0") or (dtype == "float32" and override == "1"):
        return f"{_TF32_OVERRIDE}={override} makes cuBLAS multiply otherwise than asked; unset it"
    return None


def _shape_refusal(gemm: Gemm) -> str | None:
    dtype = gemm.product.dtype
    if dtype == "int8" and gemm.m < _INT8_FEWEST_ROWS:
        return f"torch multiplies int8 from {_INT8_FEWEST_ROWS} rows on, not {gemm.m}"
    step = _STEP.get(dtype, 1)
    if gemm.k % step or gemm.n % step:
        return f"torch multiplies {dtype} with K and N in steps of {step}, not K={gemm.k}, N={gemm.n}"
    return None
