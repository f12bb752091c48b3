"""
What the gpus of a device count for, and nothing besides: enough for figures of them all and for their order.

Pure. A gpu is a number here, so that a hundred thousand of them take a second. What comes of it is what whole values
say (`compare.ridge`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from fleetridge.quantities import deviation
from fleetridge_server.compare.cohort import Cohort
from fleetridge_server.compare.ridge import Filter, misfit
from fleetridge_server.compare.stats import Distribution, distribution

_Gpu = TypeVar("_Gpu", bound=Hashable)

CohortValues = Mapping[Cohort, Mapping[int, float]]
"""Value of each gpu, by the number of its row, in every judged cohort that it is in."""


def peers_of_values(values: CohortValues) -> dict[Cohort, Distribution]:
    """Distribution of every cohort."""
    return {cohort: distribution(own.values()) for cohort, own in values.items()}


def best_betas(
    pi: Cohort, values: Mapping[Cohort, Mapping[_Gpu, float]]
) -> Callable[[_Gpu], tuple[Cohort, float] | None]:
    """
    Function from a gpu to its bandwidth that goes best with its rate in a cohort (`ridge.misfit`), and whose it is.

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


def worst_deviations(values: CohortValues, peers: Mapping[Cohort, Distribution], only: Filter) -> dict[int, float]:
    """
    Lowest deviation of each gpu over its roofs that a filter takes, and the bandwidths that go with them.

    Args:
        values: of all gpus, in the roofs that the filter takes and in all judged bandwidths.
        peers: of every cohort.
        only: the filter.
    """
    lowest: dict[int, float] = {}
    for cohort, own in values.items():
        if not only.takes_roof(cohort.roof):
            continue
        for gpu, value in own.items():
            _lower(lowest, gpu, deviation(value, peers[cohort].median))
        if cohort.roof.kind == "compute":
            best = best_betas(cohort, values)
            for gpu in own:
                beta = best(gpu)
                if beta is not None:
                    _lower(lowest, gpu, deviation(beta[1], peers[beta[0]].median))
    return lowest


def _lower(lowest: dict[int, float], gpu: int, found: float) -> None:
    if found < lowest.get(gpu, float("inf")):
        lowest[gpu] = found
