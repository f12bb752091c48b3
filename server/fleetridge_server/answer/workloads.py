"""From the ridges of a device's gpus to what workloads reach on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fleetridge.dtypes import DTYPES, ELEMENT_BYTES, Dtype
from fleetridge.roofline import square_t_star_tokens, t_star_tokens
from fleetridge.weight_shapes import WeightShape
from fleetridge.workloads import (
    DEFAULT_GQA_GROUP,
    DEFAULT_HIDDEN_SIZE,
    DEFAULT_PREFILL_TOKENS,
    Workload,
    reference_workloads,
)
from fleetridge_server.answer.workload_schemas import RidgeWorkloads, ShapeShown, SlowestGpu, WorkloadShown
from fleetridge_server.compare.cohort import Cohort, cohort_order
from fleetridge_server.compare.placements import (
    GpuRidge,
    slowest_gpu,
    token_spread,
    workload_spread,
)
from fleetridge_server.compare.stats import distribution


@dataclass(frozen=True, slots=True)
class Asked:
    """
    What is to be placed.

    Attributes:
        hidden_size, gqa_group, prefill_tokens: of the reference workloads.
        shapes: weight matrices by model, as one gpu holds them.
    """

    shapes: Mapping[str, Sequence[WeightShape]]
    hidden_size: int = DEFAULT_HIDDEN_SIZE
    gqa_group: int = DEFAULT_GQA_GROUP
    prefill_tokens: int = DEFAULT_PREFILL_TOKENS


def ridge_workloads(found: Mapping[Cohort, Sequence[GpuRidge]], asked: Asked) -> tuple[RidgeWorkloads, ...]:
    """What is asked for on each group of gpus that may be compared; dtypes whose sizes are not known are left out."""
    return tuple(
        _on_ridge(cohort, found[cohort], _dtype(cohort), asked)
        for cohort in sorted(found, key=cohort_order)
        if cohort.roof.dtype in DTYPES
    )


def _dtype(cohort: Cohort) -> Dtype:
    dtype, output = DTYPES[cohort.roof.dtype], cohort.roof.out_dtype
    return dtype.with_output(output) if output in ELEMENT_BYTES else dtype


def _on_ridge(cohort: Cohort, gpus: Sequence[GpuRidge], dtype: Dtype, asked: Asked) -> RidgeWorkloads:
    slowest = slowest_gpu(gpus)
    sizes = {"input_bytes": dtype.input_bytes, "output_bytes": dtype.output_bytes}
    workloads = reference_workloads(
        dtype, hidden_size=asked.hidden_size, gqa_group=asked.gqa_group, prefill_tokens=asked.prefill_tokens
    )
    return RidgeWorkloads(
        dtype=cohort.roof.dtype,
        out_dtype=cohort.roof.out_dtype,
        fast_accumulation=cohort.roof.fast_accumulation,
        regime=cohort.roof.regime,
        conditions=cohort.conditions,
        gpus=len(gpus),
        pi_tflops=distribution(gpu.pi_tflops for gpu in gpus),
        beta_gbps=distribution(gpu.beta_gbps for gpu in gpus),
        ridge_flop_per_byte=distribution(gpu.ridge for gpu in gpus),
        slowest=SlowestGpu(slowest.gpu_id, slowest.pi_tflops, slowest.beta_gbps, slowest.ridge),
        workloads=tuple(_workload(workload, gpus) for workload in workloads),
        square_t_star_tokens=token_spread(partial(square_t_star_tokens, hidden_size=asked.hidden_size, **sizes), gpus),
        shapes=tuple(
            ShapeShown(
                model,
                shape.label,
                shape.k,
                shape.n,
                token_spread(partial(t_star_tokens, k=shape.k, n=shape.n, **sizes), gpus),
            )
            for model, shapes in asked.shapes.items()
            for shape in shapes
        ),
    )


def _workload(workload: Workload, gpus: Sequence[GpuRidge]) -> WorkloadShown:
    found = workload_spread(workload, gpus)
    return WorkloadShown(
        name=workload.name,
        intensity=workload.intensity,
        bound=found.bound,
        attainable_tflops=found.values,
        slowest_tflops=found.slowest,
        slowest_gpu_id=found.slowest_gpu_id,
    )
