"""What a rate is held against: the published peak of this very device, or a figure that the user gave."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge import peaks
from fleetridge.peaks import Peak
from fleetridge.roofline import ridge_flop_per_byte


@dataclass(frozen=True, slots=True)
class GivenPeaks:
    """Figures from the command line, which win over the published ones; None where none was given."""

    pi_tflops: float | None = None
    beta_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class Yardstick:
    """
    One figure and where it comes from.

    Attributes:
        value: TFLOP/s or GB/s; None where none is known.
        source: for people: a title with a date, the option that gave it, or why there is none.
    """

    value: float | None
    source: str


def pi_yardstick(device: str, dtype: str, given: GivenPeaks) -> Yardstick:
    """Compute peak of a device for a dtype, in TFLOP/s."""
    if given.pi_tflops is not None:
        return Yardstick(given.pi_tflops, "given with --peak-tflops")
    peak = peaks.published_pi(device, dtype)
    return _published(peak) if peak else _unknown(device, f"{dtype} of this device", "--peak-tflops")


def beta_yardstick(device: str, given: GivenPeaks) -> Yardstick:
    """Memory bandwidth of a device, in GB/s."""
    if given.beta_gbps is not None:
        return Yardstick(given.beta_gbps, "given with --peak-gbps")
    peak = peaks.published_beta(device)
    return _published(peak) if peak else _unknown(device, "the memory of this device", "--peak-gbps")


def ridge_of(pi_tflops: float | None, beta_gbps: float | None) -> float | None:
    """Ridge point of two figures in FLOP/byte; None unless both are known."""
    return None if pi_tflops is None or beta_gbps is None else ridge_flop_per_byte(pi_tflops, beta_gbps)


def _published(peak: Peak) -> Yardstick:
    read_on = "" if peak.read_on is None else f", read {peak.read_on.isoformat()}"
    certainty = "" if peak.certainty == "cited" else f"; {peak.certainty}"
    note = f"; {peak.note}" if peak.note else ""
    return Yardstick(peak.value, f"{peak.source}{read_on}{certainty}{note}")


def _unknown(device: str, what: str, option: str) -> Yardstick:
    why = peaks.why_left_out(device)
    return Yardstick(None, f"none on file for {what if why is None else f'this device, {why}'}; give one with {option}")
