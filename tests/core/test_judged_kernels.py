"""What is judged, and what is only shown."""

from __future__ import annotations

import pytest

from fleetridge.judged_kernels import BEST_GEMM, JUDGED_KERNEL, READ_STREAM, REFERENCE_GEMM, is_judged


def test_each_half_of_the_roofline_is_judged_by_one_kernel() -> None:
    assert is_judged("compute", level="device", kernel=REFERENCE_GEMM)
    assert is_judged("memory", level="device", kernel=READ_STREAM)
    assert set(JUDGED_KERNEL.values()) == {REFERENCE_GEMM, READ_STREAM}


@pytest.mark.parametrize(
    ("kind", "level", "kernel"),
    [
        ("compute", "device", BEST_GEMM),
        ("compute", "device", READ_STREAM),
        ("memory", "device", "copy"),
        ("memory", "pcie", READ_STREAM),
        ("memory", "l2", READ_STREAM),
        ("compute", "device", None),
    ],
)
def test_whatever_else_a_sweep_finds_is_only_shown(kind: str, level: str, kernel: str | None) -> None:
    assert not is_judged("compute" if kind == "compute" else "memory", level=level, kernel=kernel)
