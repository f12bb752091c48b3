"""What a roof is called, wherever people read of it: "pi bfloat16 burst", "beta float32 burst"."""

from __future__ import annotations

from typing import Literal, Protocol

from fleetridge.dtypes import DTYPES

Rate = Literal["pi", "beta"]

# By which the judged roofs are measured (`cohort.is_judged`); their name goes without saying.
_JUDGED_KERNELS = ("gemm_reference", "read", None)


class NamedRoof(Protocol):
    """The key of a roof, as reports and as answers have it."""

    @property
    def kind(self) -> str: ...  # noqa: D102 # said above

    @property
    def dtype(self) -> str: ...  # noqa: D102 # said above

    @property
    def out_dtype(self) -> str | None: ...  # noqa: D102 # said above

    @property
    def fast_accumulation(self) -> bool | None: ...  # noqa: D102 # said above

    @property
    def regime(self) -> str: ...  # noqa: D102 # said above

    @property
    def level(self) -> str: ...  # noqa: D102 # said above

    @property
    def kernel(self) -> str | None: ...  # noqa: D102 # said above


def rate_of(kind: str) -> Rate:
    """Pi for arithmetic, beta for memory."""
    return "pi" if kind == "compute" else "beta"


def roof_words(roof: NamedRoof) -> str:
    """A roof in words; one that is not judged by its kernel and level, "pcie h2d uint8"."""
    if roof.level == "device" and roof.kernel in _JUDGED_KERNELS:
        what: str = rate_of(roof.kind)
    else:
        level = "" if roof.level == "device" else f"{roof.level} "
        what = f"{level}{roof.kernel or roof.kind}"
    return f"{what} {variant(roof.dtype, roof.regime, roof.out_dtype, fast_accumulation=roof.fast_accumulation)}"


def variant(dtype: str, regime: str, out_dtype: str | None = None, *, fast_accumulation: bool | None = None) -> str:
    """What tells a roof from others of its kind: "float8_e4m3fn→float16 burst"; a dtype's usual output is left out."""
    usual = DTYPES[dtype].output if dtype in DTYPES else dtype
    output = "" if out_dtype in (None, usual) else f"→{out_dtype}"
    fast = " fast-acc" if fast_accumulation else ""
    known_regime = "" if regime == "unspecified" else f" {regime}"
    return f"{dtype}{output}{fast}{known_regime}"
