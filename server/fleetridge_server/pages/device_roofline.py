"""The roofline of a device: median roofs of every dtype; those of its gpus, and what workloads reach, for one."""

from __future__ import annotations

from collections.abc import Iterable

from fleetridge.dtypes import DTYPES
from fleetridge.workloads import place, reference_workloads
from fleetridge_server.answer.schemas import FleetRidge
from fleetridge_server.compare.ridge import Ridge
from fleetridge_server.drawing.gpu import DrawnGpu
from fleetridge_server.drawing.roofline_chart import FleetRoof, GpuRoof, PublishedPi, RooflineChart, WorkloadMark
from fleetridge_server.pages.device_bands import key_of
from fleetridge_server.pages.device_subject import Subject, largest, variant_words


def roofline_chart(subject: Subject) -> RooflineChart:
    """The roofline of a device: each fleet roof, the gpus that stand out, published peaks, workloads."""
    answer, main = subject.answer, subject.dtype
    roofs = tuple(_fleet_roof(ridge, subject) for ridge in largest(answer.ridges))
    published = {variant_words(ridge): ridge.published.pi_tflops for ridge in answer.ridges if ridge.dtype == main}
    betas = [ridge.published.beta_gbps for ridge in answer.ridges if ridge.published.beta_gbps is not None]
    return RooflineChart(
        title=f"Roofline of {answer.device.name}",
        roofs=roofs,
        published_pi=tuple(PublishedPi(dtype, pi) for dtype, pi in published.items() if pi is not None),
        published_beta_gbps=betas[0] if betas else None,
        workloads=_workloads(roofs, main),
    )


def _fleet_roof(ridge: FleetRidge, subject: Subject) -> FleetRoof:
    is_main = ridge.dtype == subject.dtype
    beta, middle = ridge.beta_gbps, ridge.ridge_flop_per_byte
    return FleetRoof(
        dtype=variant_words(ridge),
        regime=ridge.regime,
        pi_tflops=ridge.pi_tflops.median,
        beta_gbps=None if beta is None else beta.median,
        gpus=tuple(_gpu_roof(*own) for own in subject.ridges.get(key_of(ridge), ())) if is_main else (),
        ridge_median=None if middle is None else middle.median,
        pi_spread=ridge.pi_tflops if is_main else None,
        beta_spread=beta if is_main else None,
    )


def _gpu_roof(gpu: DrawnGpu, ridge: Ridge) -> GpuRoof:
    return GpuRoof(gpu, ridge.pi.own.value, None if ridge.beta is None else ridge.beta.own.value)


def _workloads(roofs: Iterable[FleetRoof], dtype: str | None) -> tuple[WorkloadMark, ...]:
    """Reference workloads on the first roofs of a dtype that have a beta."""
    of_dtype = [roof for roof in roofs if dtype in DTYPES and roof.dtype.split("→")[0].split(" ")[0] == dtype]
    for roof in of_dtype:
        if roof.beta_gbps is not None and dtype is not None:
            placed = [
                place(workload, pi_tflops=roof.pi_tflops, beta_gbps=roof.beta_gbps)
                for workload in reference_workloads(DTYPES[dtype])
            ]
            return tuple(
                WorkloadMark(own.workload.name, own.workload.intensity, own.attainable_tflops, own.bound)
                for own in placed
            )
    return ()
