"""
Workloads on the roofs of every gpu of a group: what a typical one reaches, and what the slowest does.

Pure. Each gpu has its own ridge, so that a workload is placed on each; medians of roofs would hide that the gpu with
the slowest memory need not be the one with the slowest arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleetridge.roofline import Bound, attainable_tflops, bound_by, ridge_flop_per_byte
from fleetridge.workloads import Workload
from fleetridge_server.compare.cohort import Cohort
from fleetridge_server.compare.ridge import CohortValues, Filter, best_betas
from fleetridge_server.compare.stats import Distribution, distribution, median


class GpuRidge(NamedTuple):
    """Both roofs of one gpu, in TFLOP/s and GB/s, and their ridge in FLOP/byte."""

    gpu_id: str
    pi_tflops: float
    beta_gbps: float
    ridge: float


@dataclass(frozen=True, slots=True)
class Spread:
    """
    A rate over the gpus of a group.

    Attributes:
        values: in TFLOP/s.
        slowest, slowest_gpu_id: the lowest of them.
        bound: roof that limits the workload on most gpus.
    """

    values: Distribution
    slowest: float
    slowest_gpu_id: str
    bound: Bound


@dataclass(frozen=True, slots=True)
class Tokens:
    """
    Tokens T* at which a product becomes compute-bound, over the gpus of a group; None where no number does.

    Attributes:
        typical: at the median.
        q1, q3, p5, p95: of T* over the gpus.
        slowest: of the gpu with the lowest pi.
    """

    typical: float | None
    q1: float | None
    q3: float | None
    p5: float | None
    p95: float | None
    slowest: float | None


def ridges_by_cohort(values: CohortValues, gpus: Mapping[int, str], only: Filter) -> dict[Cohort, list[GpuRidge]]:
    """
    Gpus of every cohort of rates that have both roofs.

    Args:
        values: of a device's gpus, in the roofs that are placed on and in all judged bandwidths.
        gpus: to place on: ids, by number.
        only: rates to place on.
    """
    found: dict[Cohort, list[GpuRidge]] = defaultdict(list)
    for cohort, own in values.items():
        if cohort.roof.kind != "compute" or not only.takes_roof(cohort.roof):
            continue
        best = best_betas(cohort, values)
        for gpu, pi in own.items():
            beta = best(gpu) if gpu in gpus else None
            if beta is not None:
                found[cohort].append(GpuRidge(gpus[gpu], pi, beta[1], ridge_flop_per_byte(pi, beta[1])))
    return found


def slowest_gpu(gpus: Sequence[GpuRidge]) -> GpuRidge:
    """The gpu with the lowest pi."""
    return min(gpus, key=lambda gpu: (gpu.pi_tflops, gpu.beta_gbps, gpu.gpu_id))


def workload_spread(workload: Workload, gpus: Sequence[GpuRidge]) -> Spread:
    """What a group's gpus can reach in a workload, at least one gpu."""
    rates = [
        (attainable_tflops(workload.intensity, pi_tflops=gpu.pi_tflops, beta_gbps=gpu.beta_gbps), gpu.gpu_id)
        for gpu in gpus
    ]
    slowest, gpu_id = min(rates)
    typical_ridge = median(gpu.ridge for gpu in gpus)
    return Spread(distribution(rate for rate, _ in rates), slowest, gpu_id, bound_by(workload.intensity, typical_ridge))


def token_spread(t_star: Callable[[float], float | None], gpus: Sequence[GpuRidge]) -> Tokens:
    """
    T* over a group's gpus.

    T* grows with the ridge, so that its quantiles are T* at the quantiles of the ridge.

    Args:
        t_star: tokens from a ridge.
        gpus: at least one.
    """
    ridges = distribution(gpu.ridge for gpu in gpus)
    return Tokens(
        typical=t_star(ridges.median),
        q1=t_star(ridges.q1),
        q3=t_star(ridges.q3),
        p5=t_star(ridges.p5),
        p95=t_star(ridges.p95),
        slowest=t_star(slowest_gpu(gpus).ridge),
    )
