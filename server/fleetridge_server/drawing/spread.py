"""How the values of a group lie that is too large to be drawn one by one: quantiles instead of gpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor

from fleetridge_server.compare.stats import Distribution

# Of gpus that are spread out between quantiles less than half a one is none.
LEAST_COUNT = 0.5

_PERCENTILES = 101


@dataclass(frozen=True, slots=True)
class Spread:
    """
    Quantiles of a group.

    Attributes:
        gpus: how many there are.
        parts: fraction of the gpus and the value that they lie below, both ascending. What lies before the first and
            after the last is not spread out: there one gpu may lie far from all others.
        low, high: the lowest and the highest value, where they are known.
    """

    gpus: int
    parts: tuple[tuple[float, float], ...]
    low: float | None = None
    high: float | None = None

    @property
    def bottom(self) -> float:
        """The lowest that is known of it."""
        return self.parts[0][1] if self.low is None else self.low

    @property
    def top(self) -> float:
        """The highest that is known of it."""
        return self.parts[-1][1] if self.high is None else self.high

    def covers(self, value: float) -> bool:
        """Whether a value is among those that are spread out."""
        return self.parts[0][1] <= value <= self.parts[-1][1]

    def counts(self, step: float) -> Mapping[int, float]:
        """Gpus by bin, evenly spread between neighbouring quantiles; bin k reaches from k·step to (k + 1)·step."""
        found: dict[int, float] = defaultdict(float)
        for (below, start), (above, end) in pairwise(self.parts):
            gpus = self.gpus * (above - below)
            first, last = floor(start / step), floor(end / step)
            if first == last:
                found[first] += gpus
                continue
            for number in range(first, last + 1):
                inside = min(end, (number + 1) * step) - max(start, number * step)
                found[number] += gpus * inside / (end - start)
        return found


def of_quantiles(gpus: int, quantiles: Sequence[float]) -> Spread:
    """
    Of the 101 values from 0 % to 100 %.

    Raises:
        ValueError: it is another number of values.
    """
    if len(quantiles) != _PERCENTILES:
        raise ValueError(f"{len(quantiles)} quantiles: give those at 0 %, 1 % … 100 %, {_PERCENTILES} of them")
    parts = tuple((number / 100, value) for number, value in enumerate(quantiles))
    return Spread(gpus, parts[1:-1], quantiles[0], quantiles[-1])


def of_distribution(figures: Distribution) -> Spread:
    """Of the figures that an answer states: percentiles 5 and 95, quartiles and median."""
    five = (0.05, figures.p5), (0.25, figures.q1), (0.5, figures.median), (0.75, figures.q3), (0.95, figures.p95)
    return Spread(figures.n, five)


def scaled(spread: Spread, median: float) -> Spread:
    """The same as deviations from a median."""

    def away(value: float) -> float:
        return value / median - 1

    return Spread(
        spread.gpus,
        tuple((part, away(value)) for part, value in spread.parts),
        None if spread.low is None else away(spread.low),
        None if spread.high is None else away(spread.high),
    )
