"""
Reference workloads of an inference engine, and where they land under a pair of roofs.

Three kinds of work bracket what serving a language model asks of a gpu: one token through a weight matrix, one token's
attention over its cache, and a long prompt through a weight matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleetridge.arithmetic_intensity import (
    decode_attention_intensity,
    decode_gemv_intensity,
    prefill_projection_intensity,
)
from fleetridge.roofline import Bound, attainable_tflops, bound_by, ridge_flop_per_byte, t_star_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleetridge.dtypes import Dtype
    from fleetridge.weight_shapes import WeightShape

# Hidden size and query heads per KV head of Llama-3-8B, and a prompt of ordinary length.
DEFAULT_HIDDEN_SIZE = 4096
DEFAULT_GQA_GROUP = 4
DEFAULT_PREFILL_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Workload:
    """Work with a known ratio of operations to compulsory bytes, in FLOP/byte."""

    name: str
    intensity: float


@dataclass(frozen=True, slots=True)
class Placement:
    """
    Where a workload lands under a pair of roofs.

    Attributes:
        workload: what was placed.
        bound: roof that limits it.
        attainable_tflops: most that these roofs let it reach.
    """

    workload: Workload
    bound: Bound
    attainable_tflops: float


@dataclass(frozen=True, slots=True)
class ShapePlacement:
    """
    Tokens at which a weight shape becomes compute-bound.

    Attributes:
        shape: the weight matrix [K,N].
        t_star_tokens: T*, or None where no number of tokens reaches the ridge.
    """

    shape: WeightShape
    t_star_tokens: float | None


def reference_workloads(
    dtype: Dtype,
    *,
    hidden_size: int = DEFAULT_HIDDEN_SIZE,
    gqa_group: int = DEFAULT_GQA_GROUP,
    prefill_tokens: int = DEFAULT_PREFILL_TOKENS,
    kv_cache: Dtype | None = None,
) -> tuple[Workload, ...]:
    """
    The reference workloads for weights and activations of one dtype.

    Args:
        dtype: what is multiplied.
        hidden_size: width d of the model.
        gqa_group: query heads that share one KV head (g).
        prefill_tokens: length T of the prompt.
        kv_cache: dtype that the KV cache is stored in; the same as `dtype` when None.
    """
    kv_bytes = (kv_cache or dtype).input_bytes
    prefill = prefill_projection_intensity(
        prefill_tokens, hidden_size, input_bytes=dtype.input_bytes, output_bytes=dtype.output_bytes
    )
    return (
        Workload("decode GEMV, batch 1", decode_gemv_intensity(dtype.input_bytes)),
        Workload(f"decode attention, GQA g={gqa_group}", decode_attention_intensity(kv_bytes, gqa_group)),
        Workload(f"prefill GEMM, T={prefill_tokens}, d={hidden_size}", prefill),
    )


def place(workload: Workload, *, pi_tflops: float, beta_gbps: float) -> Placement:
    """
    Place a workload under a pair of roofs.

    Raises:
        ValueError: a roof is not a positive, finite number.
    """
    return Placement(
        workload,
        bound_by(workload.intensity, ridge_flop_per_byte(pi_tflops, beta_gbps)),
        attainable_tflops(workload.intensity, pi_tflops=pi_tflops, beta_gbps=beta_gbps),
    )


def place_shapes(shapes: Iterable[WeightShape], dtype: Dtype, *, ridge: float) -> tuple[ShapePlacement, ...]:
    """T* of each weight shape at a ridge (FLOP/byte), in the order given."""
    return tuple(
        ShapePlacement(
            shape,
            t_star_tokens(ridge, k=shape.k, n=shape.n, input_bytes=dtype.input_bytes, output_bytes=dtype.output_bytes),
        )
        for shape in shapes
    )
