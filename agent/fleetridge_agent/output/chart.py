"""The measured roofline drawn in characters."""

from __future__ import annotations

from fleetridge.report import GemmPoint, Report
from fleetridge.roofline_chart import ComputeRoof, MemoryRoof, Series, roofline_chart
from fleetridge_agent.output.achieved import Achieved
from fleetridge_agent.output.placement import ModelTraits, workloads_of
from fleetridge_agent.output.point_groups import gemms_of, intensity


def chart(report: Report, roofs: Achieved, traits: ModelTraits, *, width: int, ascii_only: bool) -> str:
    """Roofs, measured products and reference workloads of one way to multiply."""
    compute = [ComputeRoof(f"pi {roof.regime}".removesuffix(" unspecified"), roof.value) for roof in roofs.pis]
    memory = None if roofs.beta is None else MemoryRoof(f"beta {roofs.beta.kernel}", roofs.beta.value)
    groups = {
        "square GEMM": gemms_of(report.points, roofs.product, "square"),
        "weight shapes": gemms_of(report.points, roofs.product, "skinny"),
        "reference and best shape": gemms_of(report.points, roofs.product, "reference", "best"),
    }
    return roofline_chart(
        compute,
        memory,
        series=[_series(label, points) for label, points in groups.items() if points],
        workloads=workloads_of(roofs.product, traits),
        width=width,
        ascii_only=ascii_only,
    )


def _series(label: str, points: tuple[GemmPoint, ...]) -> Series:
    return Series(label, tuple((intensity(point), point.derived_tflops) for point in points))
