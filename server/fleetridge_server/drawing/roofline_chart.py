"""What a roofline shows."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge.roofline import Bound, ridge_flop_per_byte
from fleetridge_server.compare.stats import Distribution
from fleetridge_server.drawing.gpu import DrawnGpu


@dataclass(frozen=True, slots=True)
class GpuRoof:
    """Roofs of one gpu in the dtype and regime of a fleet roof; beta None where it has none that fits."""

    gpu: DrawnGpu
    pi_tflops: float
    beta_gbps: float | None


@dataclass(frozen=True, slots=True)
class FleetRoof:
    """
    Median roofs of the gpus that may be compared in one dtype and regime.

    Attributes:
        dtype: what is multiplied, with its variant where that is unusual; equal words share a colour.
        regime: `burst`, `sustained` or `unspecified`.
        gpus: all that are behind the medians; of a large fleet those that deserve a look, or none.
        pi_spread, beta_spread: of all that are behind the medians, which are bands where they are many.
        ridge_median: median of the gpus' own ridges in FLOP/byte, which answers state; None takes that of the medians.
    """

    dtype: str
    regime: str
    pi_tflops: float
    beta_gbps: float | None
    gpus: tuple[GpuRoof, ...] = ()
    ridge_median: float | None = None
    pi_spread: Distribution | None = None
    beta_spread: Distribution | None = None

    @property
    def ridge(self) -> float | None:
        """Ridge point in FLOP/byte; None without a beta."""
        if self.beta_gbps is None:
            return None
        return self.ridge_median or ridge_flop_per_byte(self.pi_tflops, self.beta_gbps)


@dataclass(frozen=True, slots=True)
class PublishedPi:
    """Published compute peak of a dtype."""

    dtype: str
    pi_tflops: float


@dataclass(frozen=True, slots=True)
class WorkloadMark:
    """A workload, and what it reaches under the median roofs of a dtype."""

    name: str
    intensity: float
    attainable_tflops: float
    bound: Bound


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measured shape: intensity in FLOP/byte over compulsory traffic, and rate."""

    label: str
    intensity: float
    tflops: float


@dataclass(frozen=True, slots=True)
class RooflineChart:
    """What is drawn; every number positive and finite."""

    title: str
    roofs: tuple[FleetRoof, ...]
    published_pi: tuple[PublishedPi, ...] = ()
    published_beta_gbps: float | None = None
    workloads: tuple[WorkloadMark, ...] = ()
    points: tuple[MeasuredPoint, ...] = ()
