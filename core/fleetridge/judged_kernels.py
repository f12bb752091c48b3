"""
What is judged: the kernels by whose rates gpus are compared. Whatever else a sweep finds is shown, and nothing more.

A roof is judged by its kernel and the memory that it is about; `report.roofs.RoofKey` is what two judged roofs must
share to be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

# The shapes that every agent of a protocol version measures alike.
REFERENCE_GEMM = "gemm_reference"

# The fastest shape that a search found: shown only, as two gpus may find two.
BEST_GEMM = "gemm_best"

# A decode step reads far more than it writes, so of the streams reading alone is judged.
READ_STREAM = "read"

JUDGED_KERNEL: Mapping[Literal["compute", "memory"], str] = {"compute": REFERENCE_GEMM, "memory": READ_STREAM}

# Links to the host and caches are shown.
JUDGED_LEVEL: Literal["device"] = "device"


def is_judged(kind: Literal["compute", "memory"], *, level: str, kernel: str | None) -> bool:
    """
    Whether gpus are compared by a roof.

    Args:
        kind: of the roof.
        level: the memory that it is about.
        kernel: that set it; None, as imported measurements have it, is not the judged one.
    """
    return level == JUDGED_LEVEL and kernel == JUDGED_KERNEL[kind]
