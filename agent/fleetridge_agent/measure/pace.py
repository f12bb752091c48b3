"""How often a call is repeated: as often as the protocol asks, unless that would take too long."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_agent.measure.timing import calls_that_fit
from fleetridge_agent.protocol import BLOCK_MS, LOOKS, MIN_REPS, WARMUP_SHARE


@dataclass(frozen=True, slots=True)
class Pace:
    """
    Repetitions of a call.

    Attributes:
        warmup, reps: untimed and timed calls.
        budget_ms: time that the timed calls of one point may take; slow devices and large shapes get fewer.
        looks: numbers of blocks after which a roof may stop; the last is its budget.
        is_warmup_fixed, is_reps_fixed: whether the user asked for the number, which then is made in full.
    """

    warmup: int
    reps: int
    budget_ms: float
    looks: tuple[int, ...] = LOOKS
    is_warmup_fixed: bool = False
    is_reps_fixed: bool = False

    def warmup_calls(self, call_ms: float) -> int:
        """Untimed calls of a point whose calls take this long."""
        if self.is_warmup_fixed:
            return self.warmup
        return calls_that_fit(call_ms, budget_ms=self.budget_ms * WARMUP_SHARE, at_least=1, at_most=self.warmup)

    def timed_calls(self, call_ms: float) -> int:
        """Timed calls of a point whose calls take this long."""
        return self._timed(call_ms, self.budget_ms)

    def block_calls(self, call_ms: float) -> int:
        """Timed calls of one block of a point whose calls take this long."""
        return self._timed(call_ms, BLOCK_MS)

    def _timed(self, call_ms: float, budget_ms: float) -> int:
        if self.is_reps_fixed:
            return self.reps
        return calls_that_fit(call_ms, budget_ms=budget_ms, at_least=MIN_REPS, at_most=self.reps)
