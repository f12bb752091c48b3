"""
The roofline model: how fast a kernel may run, given how much it computes per byte that it moves.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009. Two numbers describe a gpu: pi, how fast it multiplies, in TFLOP/s (1e12), and beta, how fast it
reads memory, in GB/s (1e9). Intensities are in FLOP/byte.
"""

from __future__ import annotations

import math
from typing import Literal

Bound = Literal["memory", "compute"]

# 1 TFLOP/s over 1 GB/s: 1e12 / 1e9.
_FLOP_PER_BYTE = 1000.0


def ridge_flop_per_byte(pi_tflops: float, beta_gbps: float) -> float:
    """
    Ridge point I* = pi / beta: the intensity at which a kernel stops being memory-bound, in FLOP/byte.

    Raises:
        ValueError: a roof is not a positive, finite number.
    """
    _require_roof("pi_tflops", pi_tflops)
    _require_roof("beta_gbps", beta_gbps)
    return _FLOP_PER_BYTE * pi_tflops / beta_gbps


def attainable_tflops(intensity: float, *, pi_tflops: float, beta_gbps: float) -> float:
    """
    The lower of both roofs at an intensity: min(pi, beta·I), in TFLOP/s.

    Raises:
        ValueError: a roof is not a positive, finite number.
    """
    _require_roof("pi_tflops", pi_tflops)
    _require_roof("beta_gbps", beta_gbps)
    return min(pi_tflops, beta_gbps * intensity / _FLOP_PER_BYTE)


def bound_by(intensity: float, ridge: float) -> Bound:
    """Roof that limits a kernel of this intensity; at the ridge itself both do, and that counts as compute."""
    return "memory" if intensity < ridge else "compute"


def t_star_tokens(ridge: float, *, k: float, n: float, input_bytes: float, output_bytes: float) -> float | None:
    """
    Rows T* at which a GEMM [T,K] × [K,N] reaches the ridge, or None where no number of rows does.

    From gemm_intensity(T) = I*: T* = I*·b_in·K·N / (2KN - I*·(b_in·K + b_out·N)). With T the intensity only nears
    2KN / (b_in·K + b_out·N), so a ridge at or beyond that is never reached.
    """
    denominator = 2 * k * n - ridge * (input_bytes * k + output_bytes * n)
    if denominator <= 0:
        return None
    return ridge * input_bytes * k * n / denominator


def square_t_star_tokens(ridge: float, *, hidden_size: float, input_bytes: float, output_bytes: float) -> float | None:
    """
    T* of a square projection [T,d] × [d,d]; None where it is never reached.

    With equal input and output of b bytes this is b·I*·d / (2(d - b·I*)).
    """
    return t_star_tokens(ridge, k=hidden_size, n=hidden_size, input_bytes=input_bytes, output_bytes=output_bytes)


def _require_roof(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive, finite number, not {value!r}")
