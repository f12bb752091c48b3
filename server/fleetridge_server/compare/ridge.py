"""
The ridge of every gpu of a device: its pi over its beta, each beside what it is held against.

Pure: what an evaluation says in, ridges out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

from fleetridge.quantities import deviation
from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_server.compare.cohort import FEWEST_PEERS, Cohort, GpuValue, cohort_order, is_best_pi
from fleetridge_server.compare.stats import Distribution

# A sustained product may be limited by memory that was only measured in short bursts; streams draw too little power for
# the two to differ much. An import says nothing of its regime.
_STAND_IN_REGIMES = ("burst", "unspecified")


CohortValues = Mapping[Cohort, Mapping[int, float]]
"""Value of each gpu, by a number of its, in judged cohorts."""

_Gpu = TypeVar("_Gpu", bound=Hashable)


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """
    What a value is held against: the gpu's own group, the whole cohort or one level of it.

    Attributes:
        n: gpus behind the median, the judged one included.
        note: why there is no verdict, if there is none.
    """

    n: int
    median: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """
    A judged value beside its peers'.

    Attributes:
        against: what it is held against.
        cohort: distribution over the whole cohort, the gpu itself included.
    """

    own: GpuValue
    against: HeldAgainst
    cohort: Distribution

    @property
    def deviation(self) -> float:
        """Part by which the gpu lies above (positive) or below (negative) the median that it is held against."""
        return deviation(self.own.value, self.against.median)


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


def gpu_roofs(gpu_id: str, judged: Iterable[Compared], others: Iterable[GpuValue] = ()) -> GpuRoofs:
    """
    What one gpu reaches.

    Args:
        gpu_id: of the gpu.
        judged: its judged values, in any order.
        others: its roofs that are only shown.
    """
    compared = sorted(judged, key=lambda own: cohort_order(own.own.cohort))
    shown = sorted(others, key=lambda own: cohort_order(own.cohort))
    bandwidths = tuple(own for own in compared if own.own.cohort.roof.kind == "memory")
    return GpuRoofs(
        gpu_id=gpu_id,
        ridges=tuple(
            Ridge(pi, _fitting_beta(pi.own, bandwidths), _best_pi_tflops(pi.own, shown))
            for pi in compared
            if pi.own.cohort.roof.kind == "compute"
        ),
        bandwidths=bandwidths,
        others=tuple(shown),
    )


def listed(roofs: GpuRoofs, only: Filter) -> GpuRoofs:
    """The part of a gpu's roofs that a filter takes; peers and deviations stay what they are."""
    return GpuRoofs(
        gpu_id=roofs.gpu_id,
        ridges=tuple(ridge for ridge in roofs.ridges if only.takes(ridge.pi.own)),
        bandwidths=tuple(bandwidth for bandwidth in roofs.bandwidths if only.takes(bandwidth.own)),
        others=tuple(value for value in roofs.others if only.takes(value)),
    )


def measured_since(roofs: GpuRoofs, since: datetime) -> GpuRoofs:
    """The part of a gpu's roofs whose newest report is not older than a time; numbers stay what they are."""

    def is_taken(value: GpuValue) -> bool:
        return value.newest is not None and value.newest.ordered_at >= since

    return GpuRoofs(
        gpu_id=roofs.gpu_id,
        ridges=tuple(ridge for ridge in roofs.ridges if is_taken(ridge.pi.own)),
        bandwidths=tuple(bandwidth for bandwidth in roofs.bandwidths if is_taken(bandwidth.own)),
        others=tuple(value for value in roofs.others if is_taken(value)),
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


def best_betas(
    pi: Cohort, values: Mapping[Cohort, Mapping[_Gpu, float]]
) -> Callable[[_Gpu], tuple[Cohort, float] | None]:
    """
    Function from a gpu to its bandwidth that goes best with its rate in a cohort (`misfit`), and whose it is.

    Args:
        pi: the cohort.
        values: of all judged bandwidths; rates among them are passed over.
    """
    fits = {beta: fit for beta in values if beta.roof.kind == "memory" and (fit := misfit(pi, beta)) is not None}
    ranked = [[(beta, values[beta]) for beta in fits if fits[beta] == fit] for fit in sorted(set(fits.values()))]

    def best(gpu: _Gpu) -> tuple[Cohort, float] | None:
        for equal in ranked:
            found = [(beta, own[gpu]) for beta, own in equal if gpu in own]
            if found:
                return found[0] if len(found) == 1 else max(found, key=lambda beta: beta[1])
        return None

    return best


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
