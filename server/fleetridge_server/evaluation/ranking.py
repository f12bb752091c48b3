"""
Gpus worst first by some of their roofs: losses over whole columns at once, for a list that a filter by roof asks for.

Pure. Lists of a fleet's length, since a value object for each of a hundred thousand gpus takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import nan

from fleetridge_server.answer.evaluation_schemas import EvaluationBody
from fleetridge_server.compare.ridge import Filter, misfit
from fleetridge_server.evaluation.order import NOT_ACCUSED, CohortColumn, FleetOrder
from fleetridge_server.evaluation.references import cohort_of

Losses = Sequence[float]
"""Loss of each gpu at its place in the order; nan where it has none."""


def worst_losses(body: EvaluationBody, columns: Mapping[int, CohortColumn], only: Filter) -> Losses:
    """
    Largest loss of each gpu over the roofs that a filter takes, and the bandwidths that go with its rates.

    Args:
        body: of the evaluation.
        columns: of the cohorts that the filter takes and of all judged bandwidths, by their numbers; one at least.
        only: the filter.
    """
    losses = {number: cohort_losses(number, column, body) for number, column in columns.items()}
    worst: Losses = [nan] * len(next(iter(columns.values())).values)
    for number in sorted(columns):
        cohort = cohort_of(body.cohorts[number])
        if only.takes_roof(cohort.roof):
            worst = _larger(worst, losses[number])
            if cohort.roof.kind == "compute":
                worst = _larger(worst, _of_best_beta(number, body, columns, losses))
    return worst


def ranked(order: FleetOrder, losses: Losses, places: Iterable[int] | None = None) -> list[int]:
    """Places of the gpus that have a loss, or of some of them: accused ones first, then by loss, then in order."""
    chosen = range(len(order)) if places is None else places
    known = [place for place in chosen if losses[place] == losses[place]]  # not nan
    found = sorted(known, key=losses.__getitem__, reverse=True)
    severities = order.severities
    parts: list[list[int]] = [[] for _ in range(NOT_ACCUSED + 1)]
    for place in found:
        parts[severities[place]].append(place)
    return [place for part in parts for place in part]


def cohort_losses(number: int, column: CohortColumn, body: EvaluationBody) -> Losses:
    """Loss of each gpu in one cohort, beside the median of its own group."""
    medians = [band.median for band in body.cohorts[number].bands]
    if len(medians) == 1:
        [median] = medians
        return [1 - value / median for value in column.values]
    return [1 - value / medians[group] for value, group in zip(column.values, column.groups, strict=True)]


def _of_best_beta(
    number: int, body: EvaluationBody, columns: Mapping[int, CohortColumn], losses: Mapping[int, Losses]
) -> Losses:
    """Loss of the bandwidth that goes best with each gpu's rate in a cohort; nan without a rate there."""
    pi = cohort_of(body.cohorts[number])
    fits = {
        beta: fit
        for beta in columns
        if (cohort := cohort_of(body.cohorts[beta])).roof.kind == "memory" and (fit := misfit(pi, cohort)) is not None
    }
    best: Losses = [nan] * len(columns[number].values)
    for fit in sorted(set(fits.values())):
        # Of equal ones the highest bandwidth.
        value, loss = best, best
        for beta in (beta for beta in fits if fits[beta] == fit):
            own, own_loss = columns[beta].values, losses[beta]
            loss = [
                known if (theirs >= mine or mine != mine) else fresh  # noqa: PLR0124 # nan is none
                for known, fresh, theirs, mine in zip(loss, own_loss, value, own, strict=True)
            ]
            value = _larger(value, own)
        best = [known if known == known else fresh for known, fresh in zip(best, loss, strict=True)]  # noqa: PLR0124
    return [loss if rate == rate else nan for loss, rate in zip(best, columns[number].values, strict=True)]  # noqa: PLR0124


def _larger(one: Losses, other: Losses) -> Losses:
    """The larger of two numbers at each place; of a number and nan the number."""
    return [b if b > a or a != a else a for a, b in zip(one, other, strict=True)]  # noqa: PLR0124 # nan
