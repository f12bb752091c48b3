"""
The ridge of every gpu of a device: its pi over its beta, each beside the same figure of its peers.

Pure: values in, ridges out; `answers` puts them into the shapes of the answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fleetridge.quantities import deviation
from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_server.compare.cohort import (
    FEWEST_PEERS,
    Cohort,
    GpuValue,
    cohort_order,
    distributions,
    is_best_pi,
    is_judged,
)
from fleetridge_server.compare.stats import Distribution

# A sustained product may be limited by memory that was only measured in short bursts; streams draw too little power for
# the two to differ much. An import says nothing of its regime.
_STAND_IN_REGIMES = ("burst", "unspecified")


@dataclass(frozen=True, slots=True)
class Compared:
    """
    A judged value beside its peers'.

    Attributes:
        peers: distribution over the cohort, the gpu itself included.
    """

    own: GpuValue
    peers: Distribution

    @property
    def deviation(self) -> float:
        """Part by which the gpu lies above (positive) or below (negative) the median of its peers."""
        return deviation(self.own.value, self.peers.median)


@dataclass(frozen=True, slots=True)
class Ridge:
    """
    Ridge of one gpu in one dtype, variant and regime.

    Attributes:
        beta: of the same gpu; None where it has no judged bandwidth that fits.
        best_pi_tflops: the best that a search over shapes found; shown, never compared.
    """

    pi: Compared
    beta: Compared | None
    best_pi_tflops: float | None

    @property
    def flop_per_byte(self) -> float | None:
        """Intensity I* = pi / beta, None without a beta."""
        return None if self.beta is None else ridge_flop_per_byte(self.pi.own.value, self.beta.own.value)


@dataclass(frozen=True, slots=True)
class GpuRoofs:
    """All that one gpu reaches: its ridges, its judged bandwidths, and the roofs that are only shown."""

    gpu_id: str
    ridges: tuple[Ridge, ...]
    bandwidths: tuple[Compared, ...]
    others: tuple[GpuValue, ...]

    @property
    def judged(self) -> tuple[Compared, ...]:
        """Every value by which the gpu is compared."""
        return (
            *(ridge.pi for ridge in self.ridges),
            *(ridge.beta for ridge in self.ridges if ridge.beta is not None),
            *self.bandwidths,
        )

    @property
    def worst(self) -> Compared | None:
        """The judged value furthest below its peers'; None where there is none."""
        return min(self.judged, key=lambda compared: compared.deviation, default=None)


class _Named(Protocol):
    @property
    def dtype(self) -> str: ...

    @property
    def regime(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Roofs to list; None lists all."""

    dtype: str | None = None
    regime: str | None = None

    @property
    def is_set(self) -> bool:
        """Whether anything is left out."""
        return self.dtype is not None or self.regime is not None

    def takes(self, value: GpuValue) -> bool:
        """Whether a value's roof is to be listed."""
        return self.takes_roof(value.cohort.roof)

    def takes_roof(self, roof: _Named) -> bool:
        """Whether a roof is to be listed."""
        return self.dtype in (None, roof.dtype) and self.regime in (None, roof.regime)


def compare_one(gpu_id: str, values: Sequence[GpuValue]) -> GpuRoofs:
    """What one gpu reaches beside its peers, from the values of all the device's gpus."""
    own = [value for value in values if value.gpu_id == gpu_id]
    cohorts = {value.cohort for value in own}
    return _roofs_of(gpu_id, own, _peers(value for value in values if value.cohort in cohorts))


def compare_with(values: Iterable[GpuValue], peers: Mapping[Cohort, Distribution]) -> dict[str, GpuRoofs]:
    """
    What some gpus reach beside peers of whom only the distributions are known, by gpu id.

    A value whose cohort is not among them was measured in a way that is new: it stands alone as yet.
    """
    by_gpu: dict[str, list[GpuValue]] = defaultdict(list)
    for value in values:
        by_gpu[value.gpu_id].append(value)
    return {
        gpu_id: _roofs_of(gpu_id, own, {**peers, **_peers(value for value in own if value.cohort not in peers)})
        for gpu_id, own in by_gpu.items()
    }


def listed(roofs: GpuRoofs, only: Filter) -> GpuRoofs:
    """The part of a gpu's roofs that a filter takes; peers and deviations stay what they are."""
    return GpuRoofs(
        gpu_id=roofs.gpu_id,
        ridges=tuple(ridge for ridge in roofs.ridges if only.takes(ridge.pi.own)),
        bandwidths=tuple(bandwidth for bandwidth in roofs.bandwidths if only.takes(bandwidth.own)),
        others=tuple(value for value in roofs.others if only.takes(value)),
    )


class Misfit(NamedTuple):
    """How badly a bandwidth goes with a pi: the smallest goes best, and of equal ones the highest bandwidth."""

    regime: int
    other_method: bool
    unknown_kernel: bool
    other_dtype: bool


def misfit(pi: Cohort, beta: Cohort) -> Misfit | None:
    """
    How badly the bandwidths of one cohort go with the rates of another; None where they do not at all.

    Of the same regime, else burst, else unspecified; among those of the same method, of the `read` kernel, of the same
    dtype, in this order.
    """
    regimes = (pi.roof.regime, *_STAND_IN_REGIMES)
    if beta.roof.regime not in regimes:
        return None
    return Misfit(
        regimes.index(beta.roof.regime),
        beta.conditions.method != pi.conditions.method,
        beta.roof.kernel is None,
        beta.roof.dtype != pi.roof.dtype,
    )


def too_few(peers: int) -> str | None:
    """Words for a cohort that is too small to compare, None for one that is not."""
    if peers >= FEWEST_PEERS:
        return None
    return f"too few peers to compare: {peers} of at least {FEWEST_PEERS}"


def _peers(values: Iterable[GpuValue]) -> dict[Cohort, Distribution]:
    return distributions(value for value in values if is_judged(value.cohort.roof))


def _roofs_of(gpu_id: str, own: Sequence[GpuValue], peers: Mapping[Cohort, Distribution]) -> GpuRoofs:
    own = sorted(own, key=lambda value: cohort_order(value.cohort))
    judged = [Compared(value, peers[value.cohort]) for value in own if value.cohort in peers]
    bandwidths = tuple(compared for compared in judged if compared.own.cohort.roof.kind == "memory")
    return GpuRoofs(
        gpu_id=gpu_id,
        ridges=tuple(
            Ridge(pi, _fitting_beta(pi.own, bandwidths), _best_pi_tflops(pi.own, own))
            for pi in judged
            if pi.own.cohort.roof.kind == "compute"
        ),
        bandwidths=bandwidths,
        others=tuple(value for value in own if value.cohort not in peers),
    )


def _fitting_beta(pi: GpuValue, bandwidths: Iterable[Compared]) -> Compared | None:
    """The gpu's bandwidth that goes best with a pi (`misfit`)."""
    fitting = [(fit, beta) for beta in bandwidths if (fit := misfit(pi.cohort, beta.own.cohort)) is not None]
    best = min(fitting, key=lambda found: (found[0], -found[1].own.value), default=None)
    return None if best is None else best[1]


def _best_pi_tflops(pi: GpuValue, own: Iterable[GpuValue]) -> float | None:
    best = [
        value.value
        for value in own
        if is_best_pi(value.cohort.roof)
        and value.cohort.roof._replace(kernel=pi.cohort.roof.kernel) == pi.cohort.roof
        and value.cohort.conditions.method == pi.cohort.conditions.method
    ]
    return max(best, default=None)
