"""
What one multiprocessor, or compute unit, multiplies in one cycle: FLOP per clock, dense, by architecture and dtype.

An upper bound for every product of an architecture: makers sell parts whose matrix units are cut (H20, GeForce with
float32 accumulation), never faster ones. A pair that is not here is not known.

Sources:
    sm_70, sm_80, sm_90: NVIDIA developer forum 244727, from the Volta, A100 and H100 white papers (64 and 256 FMA per
        tensor core, doubled again); sm_80 to sm_100 also pytorch/pytorch, torch/cuda/_device_limits.py, which cites
        table 2 of NVIDIA's H100 paper (it gives FMA; a FMA is two FLOP).
    sm_75, sm_86, sm_89, sm_103, sm_120 and dtypes that those lack: from published peaks, as SMs × boost clock × figure
        = peak: T4 40 × 1.59 GHz × 1024 = 65; A40 84 × 1.74 GHz × 1024 = 150; L40S 142 × 2.52 GHz × 1024 = 366;
        RTX PRO 6000 188 × 2.617 GHz × 1024 = 504.
    gfx908, gfx90a: ROCm/rocWMMA, MfmaPerfTraits. gfx942: AMD's CDNA 3 white paper, table 1, 304 × 2.1 GHz × 2048 =
        1307. gfx950: published peaks, 256 × 2.4 GHz × 4096 = 2517.
"""

from __future__ import annotations

from collections.abc import Mapping

# A product under an unknown TF32 switch may use the faster way.
_EITHER_WAY = {"float32_or_tf32": "tf32"}

_FLOP_PER_CLOCK: Mapping[str, Mapping[str, int]] = {
    "sm_70": {"float64": 64, "float32": 128, "float16": 1024},
    "sm_75": {"float64": 4, "float32": 128, "float16": 1024, "int8": 2048},
    "sm_80": {"float64": 128, "float32": 128, "tf32": 1024, "bfloat16": 2048, "float16": 2048, "int8": 4096},
    "sm_86": {"float64": 4, "float32": 256, "tf32": 512, "bfloat16": 1024, "float16": 1024, "int8": 2048},
    "sm_89": {
        "float64": 4,
        "float32": 256,
        "tf32": 512,
        "bfloat16": 1024,
        "float16": 1024,
        "float8_e4m3fn": 2048,
        "int8": 2048,
    },
    "sm_90": {
        "float64": 256,
        "float32": 256,
        "tf32": 2048,
        "bfloat16": 4096,
        "float16": 4096,
        "float8_e4m3fn": 8192,
        "int8": 8192,
    },
    "sm_100": {
        "float64": 128,
        "float32": 256,
        "tf32": 4096,
        "bfloat16": 8192,
        "float16": 8192,
        "float8_e4m3fn": 16384,
        "int8": 16384,
    },
    "sm_103": {"tf32": 4096, "bfloat16": 8192, "float16": 8192, "float8_e4m3fn": 16384},
    "sm_120": {
        "float64": 4,
        "float32": 256,
        "tf32": 512,
        "bfloat16": 1024,
        "float16": 1024,
        "float8_e4m3fn": 2048,
        "int8": 2048,
    },
    "gfx908": {"float32": 256, "bfloat16": 512, "float16": 1024, "int8": 1024},
    "gfx90a": {"float64": 256, "float32": 256, "bfloat16": 1024, "float16": 1024, "int8": 1024},
    "gfx942": {
        "float64": 256,
        "float32": 256,
        "bfloat16": 2048,
        "float16": 2048,
        "float8_e4m3fn": 4096,
        "int8": 4096,
    },
    "gfx950": {"bfloat16": 4096, "float16": 4096, "float8_e4m3fn": 8192, "int8": 8192},
}


def flop_per_clock(architecture: str | None, dtype: str) -> int | None:
    """
    Most FLOP of one multiprocessor in one cycle; None where it is not known.

    Args:
        architecture: such as `sm_90` or `gfx942`; ROCm's features after a colon (`gfx90a:sramecc+`) do not matter.
        dtype: in the words of a roof.
    """
    if architecture is None:
        return None
    figures = _FLOP_PER_CLOCK.get(architecture.partition(":")[0], {})
    return figures.get(dtype) or figures.get(_EITHER_WAY.get(dtype, ""))
