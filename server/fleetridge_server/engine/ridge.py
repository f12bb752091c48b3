"""
Ridges: the pi of each gpu over its beta, beside its peers; and workloads placed on the roofs of a group.

Pure: what an evaluation says in, ridges out. Each gpu has its own ridge, so that a workload is placed on each; medians
of roofs would hide that the gpu with the slowest memory need not be the one with the slowest arithmetic.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

from fleetridge.quantities import deviation
from fleetridge.roofline import Bound, attainable_tflops, bound_by, ridge_flop_per_byte
from fleetridge.workloads import Workload
from fleetridge_server.engine.cohort import Cohort, GpuValue, cohort_order, is_best_pi
from fleetridge_server.engine.rule import FEWEST_PEERS, STAND_IN_REGIMES
from fleetridge_server.engine.statistics import Distribution, distribution, median

CohortValues = Mapping[Cohort, Mapping[int, float]]
"""Value of each gpu, by a number of its, in judged cohorts."""

_Gpu = TypeVar("_Gpu", bound=Hashable)


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """
    What a value is held against: the gpu's own group, the whole cohort or one level of it.

    `n` counts the judged gpu, too; `note` says why there is no verdict, if there is none.
    """

    n: int
    median: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A judged value, what it is held against, and its whole cohort, the gpu itself included."""

    own: GpuValue
    against: HeldAgainst
    cohort: Distribution

    @property
    def deviation(self) -> float:
        """Part by which the gpu lies above (positive) or below (negative) the median that it is held against."""
        return deviation(self.own.value, self.against.median)


@dataclass(frozen=True, slots=True)
class Ridge:
    """Ridge of one gpu in one dtype, variant and regime; a beta where one fits, and the best pi of a search."""

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


class _NamedRate(Protocol):
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

    def takes_roof(self, roof: _NamedRate) -> bool:
        """Whether a roof is to be listed."""
        return self.dtype in (None, roof.dtype) and self.regime in (None, roof.regime)


def gpu_roofs(gpu_id: str, judged: Iterable[Compared], others: Iterable[GpuValue] = ()) -> GpuRoofs:
    """What one gpu reaches: its judged values, in any order, and its roofs that are only shown."""
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
    return _part(roofs, only.takes)


def measured_since(roofs: GpuRoofs, since: datetime) -> GpuRoofs:
    """The part of a gpu's roofs whose newest report is not older than a time; numbers stay what they are."""
    return _part(roofs, lambda value: value.newest is not None and value.newest.ordered_at >= since)


def _part(roofs: GpuRoofs, is_taken: Callable[[GpuValue], bool]) -> GpuRoofs:
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
    regimes = (pi.roof.regime, *STAND_IN_REGIMES)
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
    """Function from a gpu to its bandwidth that goes best with its rate in a cohort (`misfit`), and whose it is."""
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


class RoofPair(NamedTuple):
    """Both roofs of one gpu, in TFLOP/s and GB/s, and their ridge in FLOP/byte."""

    gpu_id: str
    pi_tflops: float
    beta_gbps: float
    ridge: float


@dataclass(frozen=True, slots=True)
class RateSpread:
    """A rate over the gpus of a group in TFLOP/s, its slowest, and the roof that limits most of them."""

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


def ridges_by_cohort(values: CohortValues, gpus: Mapping[int, str], only: Filter) -> dict[Cohort, list[RoofPair]]:
    """
    Gpus (ids, by number) of every cohort of rates that have both roofs; `only` says which rates.

    `values` has all judged bandwidths beside these rates.
    """
    found: dict[Cohort, list[RoofPair]] = defaultdict(list)
    for cohort, own in values.items():
        if cohort.roof.kind != "compute" or not only.takes_roof(cohort.roof):
            continue
        best = best_betas(cohort, values)
        for gpu, pi in own.items():
            beta = best(gpu) if gpu in gpus else None
            if beta is not None:
                found[cohort].append(RoofPair(gpus[gpu], pi, beta[1], ridge_flop_per_byte(pi, beta[1])))
    return found


def slowest_gpu(gpus: Sequence[RoofPair]) -> RoofPair:
    """The gpu with the lowest pi."""
    return min(gpus, key=lambda gpu: (gpu.pi_tflops, gpu.beta_gbps, gpu.gpu_id))


def workload_spread(workload: Workload, gpus: Sequence[RoofPair]) -> RateSpread:
    """What a group's gpus can reach in a workload, at least one gpu."""
    rates = [
        (attainable_tflops(workload.intensity, pi_tflops=gpu.pi_tflops, beta_gbps=gpu.beta_gbps), gpu.gpu_id)
        for gpu in gpus
    ]
    slowest, gpu_id = min(rates)
    typical_ridge = median(gpu.ridge for gpu in gpus)
    return RateSpread(
        distribution(rate for rate, _ in rates), slowest, gpu_id, bound_by(workload.intensity, typical_ridge)
    )


def token_spread(t_star: Callable[[float], float | None], gpus: Sequence[RoofPair]) -> Tokens:
    """T* over a group of at least one gpu. It grows with the ridge: its quantiles are T* at those of the ridge."""
    ridges = distribution(gpu.ridge for gpu in gpus)
    return Tokens(
        typical=t_star(ridges.median),
        q1=t_star(ridges.q1),
        q3=t_star(ridges.q3),
        p5=t_star(ridges.p5),
        p95=t_star(ridges.p95),
        slowest=t_star(slowest_gpu(gpus).ridge),
    )
