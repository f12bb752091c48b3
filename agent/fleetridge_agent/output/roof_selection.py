"""Points and roofs of a report by GEMM variant, pi and beta that follow, and the published ones beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetridge import peaks
from fleetridge.arithmetic_intensity import gemm_intensity
from fleetridge.judged_kernels import JUDGED_LEVEL, READ_STREAM, REFERENCE_GEMM
from fleetridge.peaks import Peak
from fleetridge.report import GemmPoint, Point, Report, Roof, StreamPoint
from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_agent.device.gemm_variants import GemmVariant

Group = Literal["reference", "square", "skinny", "best", "bandwidth"]


def group_of(point: Point) -> Group:
    """
    Group of a point by its label and shape.

    `skinny` are products with a model's weights, from one token to many.
    """
    if isinstance(point, StreamPoint):
        return "bandwidth"
    if point.label == "reference":
        return "reference"
    if point.label == "best":
        return "best"
    return "square" if point.label is None and point.M == point.K == point.N else "skinny"


def variant_of(measured: GemmPoint | Roof) -> GemmVariant:
    """Way to multiply behind a point or compute roof."""
    return GemmVariant(measured.dtype, measured.fast_accumulation, measured.out_dtype)


def variants_in(report: Report) -> tuple[GemmVariant, ...]:
    """All GEMM variants that a report measured, in its order."""
    found = [variant_of(point) for point in report.points if isinstance(point, GemmPoint)]
    found += [variant_of(roof) for roof in report.roofs if roof.kind == "compute"]
    return tuple(dict.fromkeys(found))


def gemms_of(points: Iterable[Point], variant: GemmVariant, *groups: Group) -> tuple[GemmPoint, ...]:
    """Products of one GEMM variant in some groups, in the order given; those with a warm cache are left out."""
    return tuple(
        point
        for point in points
        if isinstance(point, GemmPoint)
        and point.l2 != "warm"
        and variant_of(point) == variant
        and group_of(point) in groups
    )


def warm_twin(point: GemmPoint, points: Iterable[Point]) -> GemmPoint | None:
    """The same product with its operands in the cache; None where that was not measured."""
    same = _work_of(point)
    warm = (other for other in points if isinstance(other, GemmPoint) and other.l2 == "warm")
    return next((other for other in warm if _work_of(other) == same), None)


def _work_of(point: GemmPoint) -> tuple[object, ...]:
    return point.label, point.M, point.K, point.N, variant_of(point)


def streams_of(points: Sequence[Point]) -> tuple[StreamPoint, ...]:
    """Streaming kernels, in the order given."""
    return tuple(point for point in points if isinstance(point, StreamPoint))


def intensity(point: GemmPoint) -> float:
    """Intensity of a product over its compulsory traffic, in FLOP/byte."""
    sizes = variant_of(point).format
    return gemm_intensity(point.M, point.K, point.N, input_bytes=sizes.input_bytes, output_bytes=sizes.output_bytes)


@dataclass(frozen=True, slots=True)
class MemoryRoofs:
    """
    Bandwidths of the device's own memory.

    Attributes:
        beta: the one that counts.
        others: the rest, the highest first.
    """

    beta: Roof
    others: tuple[Roof, ...]


@dataclass(frozen=True, slots=True)
class Achieved:
    """
    Roofs of one GEMM variant.

    Attributes:
        pis: compute roofs by which gpus are compared, one for each regime, the highest first; at least one.
        best: the fastest shape of the sweep, shown only; None where it is among `pis` or was not looked for.
        memory: None where memory was not measured.
    """

    variant: GemmVariant
    pis: tuple[Roof, ...]
    best: Roof | None
    memory: MemoryRoofs | None

    @property
    def pi(self) -> Roof:
        """Compute roof that counts: the highest by which gpus are compared."""
        return self.pis[0]

    @property
    def beta(self) -> Roof | None:
        """Memory roof that counts; None where memory was not measured."""
        return None if self.memory is None else self.memory.beta

    @property
    def ridge(self) -> float | None:
        """Ridge point pi / beta in FLOP/byte; None where memory was not measured."""
        return self.ridge_under(self.pi)

    def ridge_under(self, pi: Roof) -> float | None:
        """Ridge point under one of the compute roofs, in FLOP/byte; None where memory was not measured."""
        return None if self.beta is None else ridge_flop_per_byte(pi.value, self.beta.value)


def achieved(report: Report, variant: GemmVariant) -> Achieved:
    """
    Roofs of one GEMM variant that the report measured, and the memory roofs.

    A sweep that ended early may have points and no roof yet; then the best of the points stands in.
    """
    compute = _highest_first(_compute_roofs(report, variant))
    judged = tuple(roof for roof in compute if roof.kernel == REFERENCE_GEMM)
    others = tuple(roof for roof in compute if roof.kernel != REFERENCE_GEMM)
    return Achieved(
        variant=variant,
        pis=judged or others[:1],
        best=others[0] if judged and others else None,
        memory=memory_roofs(report),
    )


def memory_roofs(report: Report) -> MemoryRoofs | None:
    """Memory roofs of a report; None where memory was not measured."""
    roofs = _highest_first(_memory_roofs(report))
    if not roofs:
        return None
    beta = next((roof for roof in roofs if roof.kernel == READ_STREAM), roofs[0])
    return MemoryRoofs(beta, tuple(roof for roof in roofs if roof is not beta))


def _highest_first(roofs: Iterable[Roof]) -> tuple[Roof, ...]:
    return tuple(sorted(roofs, key=lambda roof: -roof.value))


def _compute_roofs(report: Report, variant: GemmVariant) -> list[Roof]:
    found = [roof for roof in report.roofs if roof.kind == "compute" and variant_of(roof) == variant]
    if found:
        return found
    return [
        Roof(
            kind="compute",
            dtype=point.dtype,
            out_dtype=point.out_dtype,
            fast_accumulation=point.fast_accumulation,
            regime=point.regime,
            value=point.derived_tflops,
            unit="TFLOP/s",
            points=(position,),
        )
        for position, point in enumerate(report.points)
        if isinstance(point, GemmPoint) and variant_of(point) == variant
    ]


def _memory_roofs(report: Report) -> list[Roof]:
    found = [roof for roof in report.roofs if roof.kind == "memory" and roof.level == JUDGED_LEVEL]
    if found:
        return found
    return [
        Roof(
            kind="memory",
            dtype=point.dtype,
            regime=point.regime,
            kernel=point.kernel,
            value=point.derived_gbps,
            unit="GB/s",
            points=(position,),
        )
        for position, point in enumerate(report.points)
        if isinstance(point, StreamPoint) and point.level == JUDGED_LEVEL
    ]


@dataclass(frozen=True, slots=True)
class GivenPeaks:
    """Figures from the command line, which win over the published ones; None where none was given."""

    pi_tflops: float | None = None
    beta_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class ComparedPeak:
    """
    One figure and where it comes from.

    Attributes:
        value: TFLOP/s or GB/s; None where none is known.
        source: for people: a title with a date, the option that gave it, or why there is none.
    """

    value: float | None
    source: str


def pi_peak_of(device: str, dtype: str, given: GivenPeaks) -> ComparedPeak:
    """Published dense peak of a device for a dtype in TFLOP/s, or the one that the user gave."""
    if given.pi_tflops is not None:
        return ComparedPeak(given.pi_tflops, "given with --peak-tflops")
    peak = peaks.published_pi(device, dtype)
    return _published_peak(peak) if peak else _unknown_peak(device, f"{dtype} of this device", "--peak-tflops")


def beta_peak_of(device: str, given: GivenPeaks) -> ComparedPeak:
    """Published memory bandwidth of a device in GB/s, or the one that the user gave."""
    if given.beta_gbps is not None:
        return ComparedPeak(given.beta_gbps, "given with --peak-gbps")
    peak = peaks.published_beta(device)
    return _published_peak(peak) if peak else _unknown_peak(device, "the memory of this device", "--peak-gbps")


def ridge_of(pi_tflops: float | None, beta_gbps: float | None) -> float | None:
    """Ridge point of two figures in FLOP/byte; None unless both are known."""
    return None if pi_tflops is None or beta_gbps is None else ridge_flop_per_byte(pi_tflops, beta_gbps)


def _published_peak(peak: Peak) -> ComparedPeak:
    read_on = "" if peak.read_on is None else f", read {peak.read_on.isoformat()}"
    certainty = "" if peak.certainty == "cited" else f"; {peak.certainty}"
    note = f"; {peak.note}" if peak.note else ""
    return ComparedPeak(peak.value, f"{peak.source}{read_on}{certainty}{note}")


def _unknown_peak(device: str, what: str, option: str) -> ComparedPeak:
    why = peaks.why_left_out(device)
    return ComparedPeak(
        None, f"none on file for {what if why is None else f'this device, {why}'}; give one with {option}"
    )
