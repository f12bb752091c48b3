"""
Ordering time: when a report was measured, as far as clocks can be believed.

A node's clock may be wrong. What it says now (`sent_at`) against what ours says on arrival is its error, so a time
that it noted earlier can be put right; and nothing that has arrived was measured in the future.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

# Synchronised clocks differ by milliseconds; some minutes are common where nobody looks after them.
TOLERATED_AHEAD = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Ordering:
    """
    Place of a report in time.

    Attributes:
        ordered_at: earlier of the corrected end of the measurement and the arrival; None for one without a time.
        clock_ahead: the node's clock said a time further past the arrival than is tolerated.
    """

    ordered_at: datetime | None
    clock_ahead: bool


def ordering(measured_to: datetime | None, *, sent_at: datetime | None, received_at: datetime) -> Ordering:
    """
    Place of a report in time.

    Args:
        measured_to: end of the measurement by the node's clock.
        sent_at: time of sending by the same clock, None where nobody said.
        received_at: time of arrival by ours.
    """
    if measured_to is None:
        return Ordering(None, clock_ahead=False)
    skew = timedelta(0) if sent_at is None else received_at - sent_at
    return Ordering(
        ordered_at=min(_moved(measured_to, skew, latest=received_at), received_at),
        clock_ahead=measured_to - received_at > TOLERATED_AHEAD,
    )


def _moved(moment: datetime, skew: timedelta, *, latest: datetime) -> datetime:
    try:
        return moment + skew
    except OverflowError:  # beyond the years 1 to 9999: the earliest that can be said, or later than any arrival
        return datetime.min.replace(tzinfo=moment.tzinfo) if skew < timedelta(0) else latest
