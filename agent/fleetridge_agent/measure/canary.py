"""The canary: judged roofs measured once more at the end, to see whether the device is still what it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fleetridge.quantities import significant
from fleetridge_agent.measure.notes import Note
from fleetridge_agent.protocol import CANARY_BLOCKS, CANARY_GAP

MeasurementT = TypeVar("MeasurementT")


@dataclass(frozen=True, slots=True)
class Verdict(Generic[MeasurementT]):
    """
    What the canary found of one roof.

    Attributes:
        kept: the measurement that counts from now on.
        note: None where the device is what it was.
    """

    kept: MeasurementT
    note: Note | None


def sung(
    before: MeasurementT,
    again: Callable[[Sequence[int]], MeasurementT],
    rate_of: Callable[[MeasurementT], float],
    *,
    looks: Sequence[int],
    what: str,
) -> Verdict[MeasurementT]:
    """
    Compare a roof with a short measurement of the same.

    Where the two differ, the roof is measured in full once more: two that agree against one decide which of the full
    measurements counts. The device has been unstable in any case.

    Args:
        before: the roof as it was measured.
        again: measures it anew, with so many blocks.
        rate_of: rate of a measurement.
        looks: numbers of blocks of a full measurement.
        what: name of the roof.
    """
    rate, at_end = rate_of(before), rate_of(again((CANARY_BLOCKS,)))
    if _is_near(rate, at_end):
        return Verdict(before, None)
    repeated = again(looks)
    kept = repeated if _is_near(rate_of(repeated), at_end) else before
    rates = f"{significant(rate)} before, {significant(at_end)} at the end, {significant(rate_of(repeated))} once more"
    return Verdict(kept, Note(what, "unstable", f"{rates}; {significant(rate_of(kept))} is kept"))


def _is_near(rate: float, other: float) -> bool:
    return abs(other / rate - 1) <= CANARY_GAP
