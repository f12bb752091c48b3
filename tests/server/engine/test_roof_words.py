"""What roofs are called."""

from __future__ import annotations

import pytest

from fleetridge.report import RoofKey
from fleetridge_server.engine.wording import rate_of, roof_words

PI = RoofKey("compute", "bfloat16", "bfloat16", None, "burst", "device", "gemm_reference")
BETA = RoofKey("memory", "float32", None, None, "burst", "device", "read")


@pytest.mark.parametrize(
    ("roof", "expected"),
    [
        (PI, "pi bfloat16 burst"),
        (PI._replace(kernel=None, regime="unspecified"), "pi bfloat16"),
        (
            PI._replace(dtype="float8_e4m3fn", fast_accumulation=True, regime="sustained"),
            "pi float8_e4m3fn fast-acc sustained",
        ),
        (PI._replace(dtype="float8_e4m3fn", out_dtype="float16"), "pi float8_e4m3fn→float16 burst"),
        (PI._replace(kernel="gemm_best"), "gemm_best bfloat16 burst"),
        (BETA, "beta float32 burst"),
        (BETA._replace(kernel="copy"), "copy float32 burst"),
        (BETA._replace(level="pcie", kernel="h2d", dtype="uint8"), "pcie h2d uint8 burst"),
        (BETA._replace(level="l2"), "l2 read float32 burst"),
    ],
)
def test_a_roof_is_called_by_its_rate_and_by_what_is_not_usual(roof: RoofKey, expected: str) -> None:
    """A judged one is pi or beta; another is called by its kernel and where it reads."""
    assert roof_words(roof) == expected


def test_arithmetic_has_a_pi_and_memory_a_beta() -> None:
    """As in the roofline."""
    assert (rate_of("compute"), rate_of("memory")) == ("pi", "beta")
