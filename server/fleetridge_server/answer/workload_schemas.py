"""Shapes of the answer about workloads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleetridge_server.answer.evaluated_schemas import EvaluatedAnswer
from fleetridge_server.answer.schemas import DeviceName
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.compare.placements import Tokens
from fleetridge_server.compare.stats import Distribution


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
