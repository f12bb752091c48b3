"""Points: the measured shapes and streams of a sweep."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fleetridge import arithmetic_intensity
from fleetridge.report.field_types import (
    ByteCount,
    Count,
    PositiveNumber,
    Reading,
    ShareReading,
    SmallCountReading,
    SwitchReading,
    Text,
    TextReading,
    WireModel,
)
from fleetridge.report.roofs import Level, Regime

# A rate sent along must be the one that its own operands give; rounding to four digits stays far inside this.
CONTRADICTION = 1e-3

L2State = Literal["cold", "warm"]


class _Timed(WireModel):
    """
    What all points share.

    Attributes:
        ms: the time of one call; a median over repetitions.
        spread: interquartile range of the repetitions over their median, as a fraction.
        reps: timed repetitions behind `ms`.
        regime: boost clock, power-limited steady state, or not said.
        l2: whether the operands were flushed from the last-level cache before each call.
    """

    dtype: Text
    ms: PositiveNumber
    spread: ShareReading = None
    reps: SmallCountReading = None
    regime: Regime = "unspecified"
    l2: L2State | None = None
    sm_clock_mhz: Reading = None
    power_w: Reading = None


class GemmPoint(_Timed):
    """
    One matrix product [M, K] × [K, N] → [M, N].

    Attributes:
        out_dtype: of the product where it is not `dtype`.
        fast_accumulation: for float8, whether partial sums stayed in reduced precision; None where it does not apply.
        label: such as `o_proj`, or None for a plain shape.
        tflops: may be sent for convenience; must follow from M, N, K and ms.
    """

    kind: Literal["gemm"]
    M: Count
    K: Count
    N: Count
    out_dtype: TextReading = None
    fast_accumulation: SwitchReading = None
    label: TextReading = None
    tflops: Reading = None

    @model_validator(mode="after")
    def _rate_follows_from_shape(self) -> GemmPoint:
        if self.tflops is None:
            return self
        derived = self.derived_tflops
        if not math.isclose(self.tflops, derived, rel_tol=CONTRADICTION):
            raise ValueError(
                f"tflops {self.tflops:g} contradicts M, N, K, ms, which give {derived:.6g}; correct it or leave it out"
            )
        return self

    @property
    def derived_tflops(self) -> float:
        """Rate 2·M·N·K / ms in TFLOP/s."""
        return arithmetic_intensity.gemm_flops(self.M, self.K, self.N) / self.ms * 1e-9


class StreamPoint(_Timed):
    """
    One streaming kernel.

    Attributes:
        kernel: `read`, `write`, `copy`, `add`, `triad`; over a link `h2d` or `d2h`.
        bytes: read and written together by one call.
        level: whose bandwidth it is.
        gbps: may be sent for convenience; must follow from bytes and ms.
    """

    kind: Literal["stream"]
    kernel: Text
    bytes: ByteCount
    level: Level = "device"
    gbps: Reading = None

    @model_validator(mode="after")
    def _rate_follows_from_bytes(self) -> StreamPoint:
        if self.gbps is None:
            return self
        derived = self.derived_gbps
        if not math.isclose(self.gbps, derived, rel_tol=CONTRADICTION):
            raise ValueError(
                f"gbps {self.gbps:g} contradicts bytes, ms, which give {derived:.6g}; correct it or leave it out"
            )
        return self

    @property
    def derived_gbps(self) -> float:
        """Rate bytes / ms in GB/s."""
        return self.bytes / self.ms * 1e-6


Point = Annotated[GemmPoint | StreamPoint, Field(discriminator="kind")]
"""Measured shape or stream, told apart by `kind`."""
