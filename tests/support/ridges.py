"""Answers of a server to the question of a device's ridge, as an agent that checks itself reads them."""

from __future__ import annotations

from typing import Any

CONDITIONS: dict[str, Any] = {
    "memory_bytes": None,
    "sm_count": 132,
    "mig_profile": None,
    "partition": None,
    "fill": "normal",
    "method": "standard",
    "protocol_version": 1,
}


def distribution(median: float, *, n: int = 32, spread: float = 0.004) -> dict[str, Any]:
    """A distribution whose quartiles lie `spread` apart, as a fraction of its median."""
    half = median * spread / 2
    return {"n": n, "median": median, "q1": median - half, "q3": median + half, "p5": median, "p95": median}


def ridge_answer(
    pi_tflops: float = 800.0, beta_gbps: float = 4400.0, *, n: int = 32, spread: float = 0.004, **conditions: Any
) -> dict[str, Any]:
    """An answer with distributions and no limits, of gpus that were all measured alike."""
    shared = {**CONDITIONS, **conditions}
    return {
        "device": {"name": "H200", "slug": "h200", "names": ["NVIDIA H200"]},
        "ridges": [
            {
                "dtype": "bfloat16",
                "out_dtype": "bfloat16",
                "fast_accumulation": None,
                "regime": "burst",
                "kernel": "gemm_reference",
                "conditions": shared,
                "peers": n,
                "pi_tflops": distribution(pi_tflops, n=n, spread=spread),
            }
        ],
        "bandwidths": [
            {
                "dtype": "float32",
                "regime": "burst",
                "kernel": "read",
                "conditions": shared,
                "peers": n,
                "beta_gbps": distribution(beta_gbps, n=n, spread=spread),
            }
        ],
        "gpus": [],
        "next": None,
    }


def cohort(*bands: dict[str, Any], **conditions: Any) -> dict[str, Any]:
    """A cohort of the judged bfloat16 product, with the bands of its groups."""
    return {
        "roof": {
            "kind": "compute",
            "dtype": "bfloat16",
            "out_dtype": "bfloat16",
            "fast_accumulation": None,
            "regime": "burst",
            "level": "device",
            "kernel": "gemm_reference",
        },
        "unit": "TFLOP/s",
        "conditions": {**CONDITIONS, **conditions},
        "n": sum(band["n"] for band in bands),
        "bands": list(bands),
    }


def limits(median: float, lowest: float, *, n: int = 32, **levels: str) -> dict[str, Any]:
    """The band of one group of a cohort."""
    named = [{"factor": factor, "name": name} for factor, name in levels.items()]
    return {"n": n, "median": median, "scale": median / 100, "lowest": lowest, "limit": 0.03, "levels": named}
