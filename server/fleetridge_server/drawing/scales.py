"""Linear and logarithmic axes: where a value stands, and which ticks read well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Steps that people count in.
_NICE_STEPS = (1, 2, 2.5, 5, 10)

# Within a decade; more would stand too close to read.
_LOG_MULTIPLES = (1, 2, 5)

# What is left over where steps are added up in binary.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Axis:
    """
    Linear axis from `low` at `start` to `high` at `end`; `end` may lie before `start`.

    What lies outside is moved to the edge: a mark must never leave its chart.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Place of a value in user units."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, at_most: int) -> list[float]:
        """Multiples of a nice step within the axis, at most so many (and one more where both ends have one)."""
        step = nice_step((self.high - self.low) / at_most)
        first, last = math.ceil(self.low / step - _ROUNDING), math.floor(self.high / step + _ROUNDING)
        return [number * step for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class LogAxis:
    """Logarithmic axis between the decimal logarithms `low` and `high`; else like `Axis`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Place of a positive value in user units."""
        return self.at_log(math.log10(value))

    def at_log(self, log10_value: float) -> float:
        """Place of a decimal logarithm."""
        return Axis(self.low, self.high, self.start, self.end).at(log10_value)

    @property
    def units_per_decade(self) -> float:
        """Length of a decade."""
        return abs(self.end - self.start) / (self.high - self.low)

    def ticks(self, units_apart: float) -> list[float]:
        """Values 1, 2, 5, 10, … or powers of ten alone, so that they stand about so many units apart."""
        multiples: Sequence[int] = (
            _LOG_MULTIPLES if self.units_per_decade / len(_LOG_MULTIPLES) >= units_apart else (1,)
        )
        every = max(1, math.ceil(units_apart / self.units_per_decade))
        first = math.floor(self.low / every) * every
        values = [
            multiple * 10.0**exponent
            for exponent in range(first, math.ceil(self.high), every)
            for multiple in multiples
        ]
        values += [10.0 ** math.floor(self.high)] if (math.floor(self.high) - first) % every == 0 else []
        return sorted({value for value in values if self.low <= math.log10(value) <= self.high})


def nice_step(least: float) -> float:
    """Smallest of …, 1, 2, 2.5, 5, 10, … that is at least so large."""
    decade = 10.0 ** math.floor(math.log10(least))
    return next(step * decade for step in _NICE_STEPS if step * decade >= least * (1 - _ROUNDING))


def roomy(low: float, high: float, *, least_span: float, share: float) -> tuple[float, float]:
    """A range with a share of itself added at both ends, and never narrower than `least_span`."""
    middle, half = (low + high) / 2, max((high - low) * (1 + 2 * share), least_span) / 2
    return middle - half, middle + half


def written(tick: float, largest: float) -> str:
    """A tick in plain digits, without the crumbs of binary sums; 0 where it is nothing beside the largest."""
    return "0" if abs(tick) < _ROUNDING * abs(largest) else f"{tick:.10g}".replace("-", "−")
