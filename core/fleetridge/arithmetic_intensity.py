"""
Arithmetic intensity: the FLOPs of a kernel, the bytes that it has to move, and their ratio in FLOP/byte.

Where an intensity lands under the roofs of a gpu is in `roofline`.
"""

from __future__ import annotations


def gemm_flops(m: float, k: float, n: float) -> float:
    """Operations of [M,K] × [K,N]: 2·M·N·K, one multiplication and one addition for each product."""
    return 2 * m * n * k


def gemm_bytes(m: float, k: float, n: float, *, input_bytes: float, output_bytes: float) -> float:
    """
    Compulsory traffic of [M,K] × [K,N] in bytes: both inputs read once, the output written once.

    A real kernel moves at least this much, so the intensity that follows is the highest that the shape allows.
    """
    return input_bytes * (m * k + k * n) + output_bytes * (m * n)


def gemm_intensity(m: float, k: float, n: float, *, input_bytes: float, output_bytes: float) -> float:
    """Intensity of [M,K] × [K,N] in FLOP/byte over its compulsory traffic."""
    moved_bytes = gemm_bytes(m, k, n, input_bytes=input_bytes, output_bytes=output_bytes)
    return gemm_flops(m, k, n) / moved_bytes


def decode_gemv_intensity(weight_bytes: float) -> float:
    """Intensity of a weight matrix applied to one token: 2/b, as each weight of b bytes is used once."""
    return 2 / weight_bytes


def decode_attention_intensity(kv_bytes: float, gqa_group: float) -> float:
    """
    Intensity of one token's attention over its cache: 2g/b, whatever the length of the context.

    Args:
        kv_bytes: bytes of one element of the KV cache (b), which may be smaller than the weights'.
        gqa_group: query heads that share one KV head (g).
    """
    return 2 * gqa_group / kv_bytes


def prefill_projection_intensity(
    tokens: float, hidden_size: float, *, input_bytes: float, output_bytes: float
) -> float:
    """Intensity of a square projection [T,d] × [d,d]; 2Td / (b(2T + d)) where input and output have b bytes each."""
    return gemm_intensity(tokens, hidden_size, hidden_size, input_bytes=input_bytes, output_bytes=output_bytes)
