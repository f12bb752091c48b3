"""Keeps a node's rounds: waits for the next one, tries busy gpus again, and delivers what waits in between."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetridge_agent.errors import ExitCode
from fleetridge_agent.rounds.ledger import Ledger
from fleetridge_agent.rounds.moment import Moment, now_here, seconds_until
from fleetridge_agent.rounds.order import Answer, Order, Unmeasured
from fleetridge_agent.rounds.redelivery import Redelivery, redelivery
from fleetridge_agent.rounds.schedule import MAX_TRIES, Cadence, first_due, next_due
from fleetridge_agent.stop import Stop

log = logging.getLogger(__name__)

# Pauses are measured by a clock that sleeps when the host does, so none is longer than this.
_LONGEST_NAP_S = 60.0

_MINUTE_S, _HOUR_S = 60, 3600


@dataclass(frozen=True, slots=True)
class Errands:
    """
    What a keeper has done for it.

    Attributes:
        measure: carries out one try of a round within some seconds; None where that broke.
        flush: delivers the spool.
        waiting: reports in the spool.
    """

    measure: Callable[[Order, float], Answer | None]
    flush: Callable[[], None]
    waiting: Callable[[], int]


class Keeper:
    """
    One daemon.

    Args:
        cadence: how often.
        ledger: where the next round is kept.
        errands: what it has done.
        stop: ends it.
        now: the clocks.
        share: random number between 0 and 1.
    """

    def __init__(
        self,
        cadence: Cadence,
        ledger: Ledger,
        errands: Errands,
        stop: Stop,
        *,
        now: Callable[[], Moment] = now_here,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._cadence = cadence
        self._ledger = ledger
        self._errands = errands
        self._stop = stop
        self._now = now
        self._share = share
        self._redelivery: Redelivery = redelivery(now(), share=share())

    def keep(self) -> ExitCode:
        """Keep rounds until the end is asked for, or until this process has lost its gpus for good."""
        due = first_due(self._ledger.due(), self._now(), self._cadence)
        self._ledger.keep(due)
        self._announce(due)
        while not self._is_stopped_before(due):
            # Kept before the round, so that one that takes this process down with it is not begun again at once.
            due = next_due(due, self._now(), self._cadence)
            self._ledger.keep(due)
            lost_by = self._round(due)
            if lost_by is not None:
                self._ledger.keep(self._now())
                log.error("this process has lost its gpus (%s) and ends, so that it is started anew", lost_by)
                return ExitCode.NO_DEVICE
            self._announce(due)
        return ExitCode.DONE

    def _round(self, following: Moment) -> str | None:
        """Measure, and later once more what could not be measured; the reason for which the gpus are lost, if any."""
        gpus: tuple[str, ...] | None = None
        for number in range(1, MAX_TRIES + 1):
            is_last = number == MAX_TRIES or self._until(following) < 2 * self._cadence.retry_s
            answer = self._try(Order(gpus, withholds=number > 1 and not is_last), following)
            if answer is None or self._stop.is_asked:
                return None
            if answer.lost_by is not None:
                return answer.lost_by
            missing = answer.worth_another_try
            named = tuple(one.gpu for one in missing if one.gpu is not None)
            # Where one has no name, or it was about the node, nothing narrower than this try will do.
            gpus = named if len(named) == len(missing) else gpus
            if not missing or self._ends_with(missing, number, is_last=is_last):
                break
        return None

    def _try(self, order: Order, following: Moment) -> Answer | None:
        answer = self._errands.measure(order, self._until(following))
        self._redelivery = redelivery(self._now(), share=self._share())
        if self._stop.is_asked and (answer is None or answer.is_cut_short):
            self._ledger.keep(self._now())
        elif answer is None:
            log.error("this round broke, as the lines above may tell; the next one comes as planned")
        else:
            log.info("gpus measured: %d; not measured: %d", answer.measured, len(answer.unmeasured))
        return answer

    def _ends_with(self, missing: Sequence[Unmeasured], number: int, *, is_last: bool) -> bool:
        """Whether a round ends although something is missing; if not, that is after the pause before the next try."""
        names = ", ".join(f"{one.gpu or 'this node'} ({one.reason})" for one in missing)
        if is_last:
            log.warning("not measured in %d tries: %s; the next round tries again", number, names)
            return True
        log.info("not measured yet: %s; trying again in %s", names, _span(self._cadence.retry_s))
        return self._is_stopped_before(self._now().after(self._cadence.retry_s))

    def _is_stopped_before(self, moment: Moment) -> bool:
        """Wait for a moment, and deliver meanwhile; True as soon as the end is asked for."""
        while not self._stop.is_asked:
            self._deliver()
            left_s = self._until(moment)
            if left_s <= 0:
                return self._stop.is_asked
            delivery_s = self._until(self._redelivery.due)
            self._stop.wait(min(left_s, delivery_s if delivery_s > 0 else _LONGEST_NAP_S, _LONGEST_NAP_S))
        return True

    def _deliver(self) -> None:
        """Deliver what waits in the spool, if it is time for another try."""
        before = self._errands.waiting()
        if not before or self._until(self._redelivery.due) > 0:
            return
        self._errands.flush()
        was_of_use = self._errands.waiting() < before
        self._redelivery = self._redelivery.after(self._now(), was_of_use=was_of_use, share=self._share())

    def _announce(self, due: Moment) -> None:
        if not self._stop.is_asked:
            log.info("the next round begins in %s", _span(self._until(due)))

    def _until(self, moment: Moment) -> float:
        return seconds_until(moment, self._now())


def _span(seconds: float) -> str:
    """Length of time for people."""
    hours = max(0.0, seconds) / _HOUR_S
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * _HOUR_S / _MINUTE_S:.0f} min"
