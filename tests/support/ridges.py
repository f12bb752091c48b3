"""Answers of a server to the question of a device's ridge, as an agent that checks itself reads them."""

from __future__ import annotations

from typing import Any

CONDITIONS: dict[str, Any] = {
    "memory_gib": None,
    "sm_count": 132,
    "mig_profile": None,
    "partition": None,
    "fill": "normal",
    "method": "standard",
    "protocol_version": 1,
}


def ridge_answer(
    pi_tflops: float = 800.0, beta_gbps: float = 4400.0, *, n: int = 32, **conditions: Any
) -> dict[str, Any]:
    """An answer about gpus that were all measured alike, in a product and in reading; a loss of 3 % is the limit."""
    return {
        "device": {"name": "H200", "slug": "h200", "names": ["NVIDIA H200"]},
        "cohorts": [
            cohort(limits(pi_tflops, 0.97 * pi_tflops, n=n), **conditions),
            cohort(limits(beta_gbps, 0.97 * beta_gbps, n=n), roof=READ, **conditions),
        ],
        "gpus": [],
        "next": None,
    }


GEMM: dict[str, Any] = {
    "kind": "compute",
    "dtype": "bfloat16",
    "out_dtype": "bfloat16",
    "fast_accumulation": None,
    "regime": "burst",
    "level": "device",
    "kernel": "gemm_reference",
}
READ: dict[str, Any] = {**GEMM, "kind": "memory", "dtype": "float32", "out_dtype": None, "kernel": "read"}


def cohort(*bands: dict[str, Any], roof: dict[str, Any] = GEMM, **conditions: Any) -> dict[str, Any]:
    """A cohort of a judged roof, with the bands of its groups."""
    return {
        "roof": roof,
        "unit": "TFLOP/s" if roof["kind"] == "compute" else "GB/s",
        "conditions": {**CONDITIONS, **conditions},
        "n": sum(band["n"] for band in bands),
        "bands": list(bands),
    }


def limits(median: float, lowest: float, *, n: int = 32, **levels: str) -> dict[str, Any]:
    """The band of one group of a cohort."""
    named = [{"factor": factor, "name": name} for factor, name in levels.items()]
    return {"n": n, "median": median, "scale": median / 100, "lowest": lowest, "limit": 0.03, "levels": named}
