"""Roofs: the ceilings that a sweep found, and the key by which two of them may be compared."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from fleetridge.report.field_types import AtMost, PositiveNumber, Reading, SwitchReading, Text, TextReading, WireModel

RoofKind = Literal["compute", "memory"]
Regime = Literal["burst", "sustained", "unspecified"]
Level = Literal["device", "l2", "pcie", "nvlink"]
Unit = Literal["TFLOP/s", "GB/s"]

_UNIT_OF_KIND: dict[RoofKind, Unit] = {"compute": "TFLOP/s", "memory": "GB/s"}

# A roof comes from at most all points of a report.
_MAX_SOURCES = 4096

FLOAT32_EITHER = "float32_or_tf32"


class RoofKey(NamedTuple):
    """
    What two roofs must share to be compared.

    A switch that is unknown (None) is a value of its own: unknown equals only unknown.
    """

    kind: RoofKind
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: Regime
    level: Level
    kernel: str | None


class Roof(WireModel):
    """
    One ceiling of one gpu.

    Attributes:
        kernel: for memory the stream (`read`, `copy`, …); for compute `gemm_reference` (shapes that every agent of a
            protocol version measures alike, hence judged) or `gemm_best` (the best that a search found, shown only).
        value, unit: TFLOP/s for compute, GB/s for memory.
        ci_low, ci_high: within-run interval of `value`, in its unit.
        converged: whether that interval got as narrow as the protocol asks before the budget ran out.
        first_block, last_block: in the unit of `value`; their ratio shows a rate that falls within the run.
        trend: (last - first) / first, as a fraction.
        sm_clock_mhz, power_w: medians over the blocks behind the value.
        points: positions in the report's `points` from which the value comes.
    """

    kind: RoofKind
    dtype: Text
    out_dtype: TextReading = None
    fast_accumulation: SwitchReading = None
    regime: Regime = "unspecified"
    level: Level = "device"
    kernel: TextReading = None
    value: PositiveNumber
    unit: Unit
    ci_low: Reading = None
    ci_high: Reading = None
    converged: SwitchReading = None
    first_block: Reading = None
    last_block: Reading = None
    trend: Reading = None
    sm_clock_mhz: Reading = None
    power_w: Reading = None
    points: Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], AtMost(_MAX_SOURCES)] = ()

    @model_validator(mode="after")
    def _unit_fits_kind(self) -> Roof:
        if self.unit != _UNIT_OF_KIND[self.kind]:
            raise ValueError(f"a {self.kind} roof is given in {_UNIT_OF_KIND[self.kind]}, not {self.unit}")
        return self

    @property
    def key(self) -> RoofKey:
        """Key as the report states it; see `settled_dtype` for float32 with an unsaid TF32 switch."""
        return RoofKey(
            self.kind, self.dtype, self.out_dtype, self.fast_accumulation, self.regime, self.level, self.kernel
        )


def settled_dtype(dtype: str, *, allow_tf32: bool | None, chip_has_tf32: bool | None) -> str:
    """
    Dtype by which a compute roof is compared: "float32" alone does not say whether products ran in TF32.

    Args:
        dtype: as reported.
        allow_tf32: position of the switch, None where unknown.
        chip_has_tf32: False where the chip is known to have no TF32 units, None where nothing is known of it.

    Returns:
        `tf32` where the switch was on, `float32` where it was off or the chip has no TF32, else FLOAT32_EITHER.
    """
    if dtype != "float32" or chip_has_tf32 is False or allow_tf32 is False:
        return dtype
    return "tf32" if allow_tf32 else FLOAT32_EITHER
