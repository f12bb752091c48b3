"""The loop of a daemon: waits for the next round, tries busy gpus again, and delivers what waits in between."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetridge_agent.errors import ExitCode
from fleetridge_agent.schedule.attempt import Attempt, AttemptResult, Unmeasured
from fleetridge_agent.schedule.due import (
    MAX_TRIES,
    Cadence,
    DueFile,
    Timestamp,
    first_due,
    next_due,
    seconds_until,
    timestamp_now,
)
from fleetridge_agent.stop import Stop

log = logging.getLogger(__name__)

# The first try comes within a minute, as a server that is upgraded is back by then; after a weekend's outage a fleet of
# a thousand nodes with an hour's pause comes back at one call every few seconds.
_BASE_S = 60.0
_CAP_S = 3600.0

# 2^6 minutes are past the cap; more doublings only make large numbers.
_MOST_DOUBLINGS = 6

# Pauses are measured by a clock that sleeps when the host does, so none is longer than this.
_LONGEST_WAIT_S = 60.0

_MINUTE_S, _HOUR_S = 60, 3600


@dataclass(frozen=True, slots=True)
class Tasks:
    """
    What the loop has done by others.

    Attributes:
        measure: carries out one try of a round within some seconds; None where that broke.
        flush: delivers the spool.
        waiting: reports in the spool.
    """

    measure: Callable[[Attempt, float], AttemptResult | None]
    flush: Callable[[], None]
    waiting: Callable[[], int]


class Loop:
    """
    One daemon.

    Args:
        cadence: how often.
        due_file: where the next round is kept.
        tasks: what it has done.
        stop: ends it.
        now: the clocks.
        share: random number between 0 and 1.
    """

    def __init__(
        self,
        cadence: Cadence,
        due_file: DueFile,
        tasks: Tasks,
        stop: Stop,
        *,
        now: Callable[[], Timestamp] = timestamp_now,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._cadence = cadence
        self._due_file = due_file
        self._tasks = tasks
        self._stop = stop
        self._now = now
        self._share = share
        self._redelivery: Redelivery = redelivery(now(), share=share())

    def run(self) -> ExitCode:
        """Keep rounds until the end is asked for, or until this process has lost its gpus for good."""
        due = first_due(self._due_file.due(), self._now(), self._cadence)
        self._due_file.keep(due)
        self._announce(due)
        while not self._is_stopped_before(due):
            # Kept before the round, so that one that takes this process down with it is not begun again at once.
            due = next_due(due, self._now(), self._cadence)
            self._due_file.keep(due)
            lost_gpus_reason = self._round(due)
            if lost_gpus_reason is not None:
                self._due_file.keep(self._now())
                log.error("this process has lost its gpus (%s) and ends, so that it is started anew", lost_gpus_reason)
                return ExitCode.NO_DEVICE
            self._announce(due)
        return ExitCode.DONE

    def _round(self, following: Timestamp) -> str | None:
        """Measure, and later once more what could not be measured; the reason for which the gpus are lost, if any."""
        gpus: tuple[str, ...] | None = None
        for number in range(1, MAX_TRIES + 1):
            is_last = number == MAX_TRIES or self._seconds_until(following) < 2 * self._cadence.retry_s
            result = self._try(Attempt(gpus, withholds=number > 1 and not is_last), following)
            if result is None or self._stop.is_asked:
                return None
            if result.lost_gpus_reason is not None:
                return result.lost_gpus_reason
            missing = result.retryable
            named = tuple(one.gpu for one in missing if one.gpu is not None)
            # Where one has no name, or it was about the node, nothing narrower than this try will do.
            gpus = named if len(named) == len(missing) else gpus
            if not missing or self._ends_with(missing, number, is_last=is_last):
                break
        return None

    def _try(self, attempt: Attempt, following: Timestamp) -> AttemptResult | None:
        result = self._tasks.measure(attempt, self._seconds_until(following))
        self._redelivery = redelivery(self._now(), share=self._share())
        if self._stop.is_asked and (result is None or result.is_cut_short):
            self._due_file.keep(self._now())
        elif result is None:
            log.error("this round broke, as the lines above may tell; the next one comes as planned")
        else:
            log.info("gpus measured: %d; not measured: %d", result.measured, len(result.unmeasured))
        return result

    def _ends_with(self, missing: Sequence[Unmeasured], number: int, *, is_last: bool) -> bool:
        """Whether a round ends although something is missing; if not, that is after the pause before the next try."""
        names = ", ".join(f"{one.gpu or 'this node'} ({one.reason})" for one in missing)
        if is_last:
            log.warning("not measured in %d tries: %s; the next round tries again", number, names)
            return True
        log.info("not measured yet: %s; trying again in %s", names, _duration_text(self._cadence.retry_s))
        return self._is_stopped_before(self._now().after(self._cadence.retry_s))

    def _is_stopped_before(self, timestamp: Timestamp) -> bool:
        """Wait until then, and deliver meanwhile; True as soon as the end is asked for."""
        while not self._stop.is_asked:
            self._deliver()
            left_s = self._seconds_until(timestamp)
            if left_s <= 0:
                return self._stop.is_asked
            delivery_s = self._seconds_until(self._redelivery.due)
            self._stop.wait(min(left_s, delivery_s if delivery_s > 0 else _LONGEST_WAIT_S, _LONGEST_WAIT_S))
        return True

    def _deliver(self) -> None:
        """Deliver what waits in the spool, if it is time for another try."""
        before = self._tasks.waiting()
        if not before or self._seconds_until(self._redelivery.due) > 0:
            return
        self._tasks.flush()
        has_delivered = self._tasks.waiting() < before
        self._redelivery = self._redelivery.after(self._now(), has_delivered=has_delivered, share=self._share())

    def _announce(self, due: Timestamp) -> None:
        if not self._stop.is_asked:
            log.info("the next round begins in %s", _duration_text(self._seconds_until(due)))

    def _seconds_until(self, timestamp: Timestamp) -> float:
        return seconds_until(timestamp, self._now())


@dataclass(frozen=True, slots=True)
class Redelivery:
    """
    The next try.

    Attributes:
        due: not before then.
        failures: tries in a row that delivered nothing.
    """

    due: Timestamp
    failures: int = 0

    def after(self, now: Timestamp, *, has_delivered: bool, share: float) -> Redelivery:
        """
        The try after one that ends now.

        Args:
            now: the present.
            has_delivered: whether it delivered anything.
            share: random number between 0 and 1.
        """
        return redelivery(now, failures=0 if has_delivered else self.failures + 1, share=share)


def redelivery(now: Timestamp, *, failures: int = 0, share: float) -> Redelivery:
    """A try after so many that failed: full jitter, a random share of a pause that doubles up to an hour."""
    pause_s = share * min(_CAP_S, _BASE_S * 2.0 ** min(failures, _MOST_DOUBLINGS))
    return Redelivery(now.after(pause_s), failures)


def _duration_text(seconds: float) -> str:
    """Length of time for people."""
    hours = max(0.0, seconds) / _HOUR_S
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * _HOUR_S / _MINUTE_S:.0f} min"
