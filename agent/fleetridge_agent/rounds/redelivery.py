"""When a daemon tries again to deliver what waits in the spool."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_agent.rounds.moment import Moment

# The first try comes within a minute, as a server that is upgraded is back by then; after a weekend's outage a fleet of
# a thousand nodes with an hour's pause comes back at one call every few seconds.
_BASE_S = 60.0
_CAP_S = 3600.0

# 2^6 minutes are past the cap; more doublings only make large numbers.
_MOST_DOUBLINGS = 6


@dataclass(frozen=True, slots=True)
class Redelivery:
    """
    The next try.

    Attributes:
        due: not before then.
        failures: tries in a row that delivered nothing.
    """

    due: Moment
    failures: int = 0

    def after(self, now: Moment, *, was_of_use: bool, share: float) -> Redelivery:
        """
        The try after one that ends now.

        Args:
            now: the present.
            was_of_use: whether it delivered anything.
            share: random number between 0 and 1.
        """
        return redelivery(now, failures=0 if was_of_use else self.failures + 1, share=share)


def redelivery(now: Moment, *, failures: int = 0, share: float) -> Redelivery:
    """A try after so many that failed: full jitter, a random share of a pause that doubles up to an hour."""
    pause_s = share * min(_CAP_S, _BASE_S * 2.0 ** min(failures, _MOST_DOUBLINGS))
    return Redelivery(now.after(pause_s), failures)
