"""Workloads placed on measured roofs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
from fleetridge_server.engine.cohort import Cohort, Conditions, cohort_order
from fleetridge_server.engine.ridge import RoofPair, Tokens, slowest_gpu, token_spread, workload_spread
from fleetridge_server.engine.statistics import Distribution, distribution
from fleetridge_server.responses.verdict import EvaluatedAnswer
from fleetridge_server.verdicts.roof_shapes import DeviceName


@dataclass(frozen=True, slots=True)
class WorkloadShown:
    """
    One workload on the roofs of a group of gpus.

    Attributes:
        intensity: operations over compulsory bytes, in FLOP/byte.
        bound: roof that limits it on a typical gpu.
        attainable_tflops: over the gpus; `slowest_tflops` is the lowest.
    """

    name: str
    intensity: float
    bound: str
    attainable_tflops: Distribution
    slowest_tflops: float
    slowest_gpu_id: str


@dataclass(frozen=True, slots=True)
class ShapeShown:
    """A weight matrix [K,N] of a model, as each of `tp` gpus holds it, and the tokens at which it is compute-bound."""

    model: str
    label: str
    k: int
    n: int
    t_star_tokens: Tokens


@dataclass(frozen=True, slots=True)
class SlowestGpu:
    """The gpu with the lowest pi of a group."""

    gpu_id: str
    pi_tflops: float
    beta_gbps: float
    ridge_flop_per_byte: float


@dataclass(frozen=True, slots=True)
class RidgeWorkloads:
    """
    What a group of gpus that may be compared can reach in one dtype and regime.

    Attributes:
        square_t_star_tokens: T* of a square projection [T,d] × [d,d].
    """

    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str
    conditions: Conditions
    gpus: int
    pi_tflops: Distribution
    beta_gbps: Distribution
    ridge_flop_per_byte: Distribution
    slowest: SlowestGpu
    workloads: tuple[WorkloadShown, ...]
    square_t_star_tokens: Tokens
    shapes: tuple[ShapeShown, ...]


class DeviceWorkloads(EvaluatedAnswer):
    """
    The reference workloads and weight shapes of served models on a device's measured roofs.

    `T*` is the number of tokens from which a product is limited by arithmetic, no longer by memory; null where none is.
    """

    device: DeviceName
    as_of: datetime
    hidden_size: int
    gqa_group: int
    prefill_tokens: int
    tp: int
    ridges: tuple[RidgeWorkloads, ...]


@dataclass(frozen=True, slots=True)
class WorkloadQuery:
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


def ridge_workloads(found: Mapping[Cohort, Sequence[RoofPair]], asked: WorkloadQuery) -> tuple[RidgeWorkloads, ...]:
    """What is asked for on each group of gpus that may be compared; dtypes whose sizes are not known are left out."""
    return tuple(
        _on_ridge(cohort, found[cohort], _dtype(cohort), asked)
        for cohort in sorted(found, key=cohort_order)
        if cohort.roof.dtype in DTYPES
    )


def _dtype(cohort: Cohort) -> Dtype:
    dtype, output = DTYPES[cohort.roof.dtype], cohort.roof.out_dtype
    return dtype.with_output(output) if output in ELEMENT_BYTES else dtype


def _on_ridge(cohort: Cohort, gpus: Sequence[RoofPair], dtype: Dtype, asked: WorkloadQuery) -> RidgeWorkloads:
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


def _workload(workload: Workload, gpus: Sequence[RoofPair]) -> WorkloadShown:
    found = workload_spread(workload, gpus)
    return WorkloadShown(
        name=workload.name,
        intensity=workload.intensity,
        bound=found.bound,
        attainable_tflops=found.values,
        slowest_tflops=found.slowest,
        slowest_gpu_id=found.slowest_gpu_id,
    )
