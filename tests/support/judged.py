"""Reports as the verdict engine takes them, in a line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, JudgedReport, NodeName, RoofReading

MONDAY = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
AS_OF = MONDAY + timedelta(hours=1)

PI = RoofKey("compute", "bfloat16", None, None, "burst", "device", "gemm_reference")
BETA = RoofKey("memory", "uint8", None, None, "burst", "device", "read")
H2D = RoofKey("memory", "uint8", None, None, "burst", "pcie", "h2d")

CONDITIONS = Conditions(
    memory_gib=128,
    sm_count=132,
    mig_profile=None,
    partition=None,
    fill="normal",
    method="standard",
    protocol_version=1,
)


def reading(value: float) -> RoofReading:
    """A converged reading of one roof, without anything beside it."""
    return RoofReading(value, converged=True)


def report(gpu: str, pi: float | None = None, *, days_ago: float = 0, beta: float | None = None) -> JudgedReport:
    """A valid report of a gpu some days before MONDAY noon."""
    roofs = {PI: pi, BETA: beta}
    at = MONDAY - days_ago * DAY
    return JudgedReport(
        report_id=f"{gpu}@{at.isoformat()}",
        gpu_id=gpu,
        ordered_at=at,
        conditions=CONDITIONS,
        roofs={roof: reading(value) for roof, value in roofs.items() if value is not None},
    )


def series(gpu: str, values: Sequence[float]) -> list[JudgedReport]:
    """Reports of a gpu a day apart, oldest first, the last on MONDAY noon."""
    return [report(gpu, value, days_ago=len(values) - 1 - place) for place, value in enumerate(values)]


def fleet(values: Sequence[float], *, runs: int = 1) -> list[JudgedReport]:
    """Gpus gpu-00, gpu-01, … with one value each, measured on some days."""
    return [own for place, value in enumerate(values) for own in series(f"gpu-{place:02d}", [value] * runs)]


def at_node(reports: Sequence[JudgedReport], name: str, *, rack: str | None = None) -> list[JudgedReport]:
    """The same reports from a node."""
    return [replace(own, node=NodeName("east", name), rack=rack) for own in reports]


def with_factors(reports: Sequence[JudgedReport], factors: Factors) -> list[JudgedReport]:
    """The same reports under other settings."""
    return [replace(own, factors=factors) for own in reports]


def judged(reports: Sequence[JudgedReport], *, published_tflops: float | None = None) -> Evaluation:
    """Evaluation an hour after MONDAY noon, of nothing but reports."""
    return evaluate(Fleet(reports, published={} if published_tflops is None else {PI: published_tflops}), AS_OF)


def states(reports: Sequence[JudgedReport]) -> dict[str, str]:
    """State of each gpu."""
    return {gpu: own.state for gpu, own in judged(reports).states.items()}


def flagged(reports: Sequence[JudgedReport]) -> set[str]:
    """Gpus that are suspect, outlier or drifted."""
    return {gpu for gpu, own in judged(reports).states.items() if own.is_flagged}
