"""
What slow gpus cost a job that waits for all of its gpus.

A synchronous job runs at the pace of its slowest gpu: with n gpus of rates r it gets n·min(r) of the sum of r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WithoutWorst:
    """
    The same job without its worst gpus.

    Attributes:
        left_out: how many.
        rate: of the rest, at the pace of its slowest, in the unit of the values.
        gain: over the rate of all, less 1; negative where leaving them out costs more than it wins.
    """

    left_out: int
    rate: float
    gain: float


@dataclass(frozen=True, slots=True)
class StragglerCost:
    """
    What a synchronous job over a group loses to its slowest gpu.

    Attributes:
        n: gpus.
        slowest: value of the slowest.
        loss: part of the sum of all rates that waiting costs.
        without: the same job without the worst 1, 2, … gpus.
    """

    n: int
    slowest: float
    loss: float
    without: tuple[WithoutWorst, ...]

    @property
    def best(self) -> WithoutWorst | None:
        """What wins most back, None where leaving out any costs more."""
        best = max(self.without, key=lambda option: option.gain, default=None)
        return best if best is not None and best.gain > 0 else None


def straggler_cost(values: Sequence[float], most_left_out: int = 8) -> StragglerCost:
    """
    Cost of the slowest gpu of a group.

    Args:
        values: one per gpu, above 0.
        most_left_out: up to how many worst gpus to leave out; a node's worth by default.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no values: ask for the cost of a group that has gpus")
    ordered = sorted(values)
    n = len(ordered)
    rate = n * ordered[0]
    without = tuple(
        WithoutWorst(left_out, (n - left_out) * ordered[left_out], (n - left_out) * ordered[left_out] / rate - 1)
        for left_out in range(1, min(most_left_out, n - 1) + 1)
    )
    return StragglerCost(n, ordered[0], 1 - rate / sum(ordered), without)
