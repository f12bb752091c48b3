"""
When devices are evaluated: soon after reports arrive, at least every hour, and never all the time.

A run of the whole fleet reports for a while; judging after each report would cost much and say little. So an
evaluation waits until nothing more arrives, though not for ever, and takes at most a fifth of the time.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from fleetridge_server.background import Task
from fleetridge_server.db.locks import Leadership
from fleetridge_server.db.troubles import DATABASE_TROUBLES
from fleetridge_server.db.verdict_tables import EvaluationDue
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.evaluation.kept_histories import device_groups_with_due_gpus
from fleetridge_server.evaluation.process import BrokenOffError, ProcessLostError
from fleetridge_server.settings import EVALUATE_EVERY
from fleetridge_server.verdicts.save import SupersededError
from fleetridge_server.verdicts.series import (
    DeviceGroup,
    LastEvaluation,
    due_notes,
    is_behind,
    is_future_dated,
    last_evaluations,
    note_due,
)

_log = logging.getLogger(__name__)

# The gpus of a node report within seconds of each other.
QUIET = timedelta(seconds=5)
# A fleet whose reports never pause is judged every minute all the same.
LONGEST_WAIT = timedelta(seconds=60)


# An evaluation is followed by four times its duration without one of the same device.
RESTS = 4

# A device whose evaluation fails is let be for as long as any waits.
AFTER_FAILURE = LONGEST_WAIT

# A process that is lost is started again soon: twice as long is waited each time in a row, up to AFTER_FAILURE.
AFTER_LOSS = timedelta(seconds=2)

# How often it is looked whether anything is due: well below QUIET, and two small queries.
POLL_S = 1.0

# A database that starts again is back by then, and the log of an hour without it stays short.
AFTER_TROUBLE_S = 5.0


Evaluate: TypeAlias = Callable[[DeviceGroup], float]
"""Evaluates one device; the seconds that it took."""


def starts_at(
    due: EvaluationDue | None, last: LastEvaluation | None, every: timedelta = EVALUATE_EVERY
) -> datetime | None:
    """
    When a device is to be evaluated next, `every` being the longest time between two evaluations.

    None where neither a report nor an evaluation speaks of it.
    """
    reasons: list[datetime] = []
    if due is not None:
        reasons.append(min(due.latest + QUIET, due.since + LONGEST_WAIT))
    if last is not None:
        reasons.append(last.made_at + every)
    if not reasons:
        return None
    return min(reasons) if last is None else max(min(reasons), last.made_at + RESTS * last.took)


def _latest(due: EvaluationDue | None, last: LastEvaluation | None) -> datetime:
    """Latest time by which a start is reckoned; one of the two is there."""
    times = [due.since] if due is not None else []
    return max([*times, last.made_at, last.as_of] if last is not None else times)


@dataclass
class Schedule:
    """
    Evaluates what is due, where this is the server that does.

    Attributes:
        evaluator: has the database and the clock, and evaluates where nobody else does.
        every: the longest time between two evaluations of a device.
        on_evaluated: called with the seconds that each took.
        evaluate: evaluates one device in place of the evaluator; the seconds that it took.
    """

    evaluator: Evaluator
    every: timedelta = EVALUATE_EVERY
    on_evaluated: Callable[[float], None] = lambda _seconds: None
    evaluate: Evaluate | None = None
    leadership: Leadership = field(init=False)
    _leads: bool = field(default=False, init=False)
    _let_be: dict[DeviceGroup, datetime] = field(default_factory=dict, init=False)
    _warned_until: datetime | None = field(default=None, init=False)
    _losses: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.leadership = Leadership(self.evaluator.database)

    def follow_once(self, is_ending: Callable[[], bool] = lambda: False) -> list[DeviceGroup]:
        """
        Evaluate all that is due now, the longest due first; what was.

        Raises:
            sqlalchemy.exc.DBAPIError: the database does not answer just now.
        """
        if not self._take_lead():
            return []
        done: list[DeviceGroup] = []
        for device_group in self._due():
            if is_ending() or not self.leadership.lead():
                break
            if self._evaluate(device_group):
                done.append(device_group)
        return done

    def _take_lead(self) -> bool:
        led, self._leads = self._leads, False
        self._leads = self.leadership.lead()
        if self._leads and not led:
            self._note_left_over()
        return self._leads

    def _note_left_over(self) -> None:
        """What is due without a note has waited long enough."""
        with self.evaluator.database.writing() as session:
            note_due(session, device_groups_with_due_gpus(session), self.evaluator.now() - LONGEST_WAIT)

    def _due(self) -> list[DeviceGroup]:
        now = self.evaluator.now()
        with self.evaluator.database.reading() as session:
            notes, last = due_notes(session), last_evaluations(session)
            known = [own for own in notes.keys() | last.keys() if not self._is_let_be(own, now)]
            future_dated = {
                device_group: at
                for device_group in known
                if is_future_dated(at := _latest(notes.get(device_group), last.get(device_group)), now)
            }
            behind = future_dated if future_dated and is_behind(session, now) else {}
        self._warn_of_clock(behind, now)
        starts = {
            device_group: now if device_group in future_dated else start
            for device_group in known
            if (start := starts_at(notes.get(device_group), last.get(device_group), self.every)) is not None
        }
        ready = [own for own, start in starts.items() if start <= now and own not in behind]
        return sorted(ready, key=lambda device_group: (starts[device_group], device_group))

    def _warn_of_clock(self, behind: Mapping[DeviceGroup, datetime], now: datetime) -> None:
        """Say once that this clock is behind: evaluations wait, as verdicts do not go back in time."""
        self._let_be |= dict.fromkeys(behind, now + AFTER_FAILURE)
        until = max(behind.values(), default=None)
        if until is None or until == self._warned_until:
            return
        self._warned_until = until
        _log.warning(
            "evaluations wait until %s, when one was made already: this server's clock is behind those of the nodes; "
            "set it right, and see 'Clocks' in docs/operations.md",
            until.isoformat(timespec="seconds"),
        )

    def _is_let_be(self, device_group: DeviceGroup, now: datetime) -> bool:
        """Whether it is too early to try again; a time further ahead is one of before the clock was put back."""
        return now < self._let_be.get(device_group, now) <= now + AFTER_FAILURE

    def _evaluate(self, device_group: DeviceGroup) -> bool:
        try:
            self.on_evaluated((self.evaluate or self._evaluate_here)(device_group))
        except BrokenOffError:
            return False
        except ProcessLostError as error:
            self._wait_after_loss(device_group, error)
            return False
        except SupersededError as error:
            _log.info("device %d: %s", device_group.device_id, error)
        except DATABASE_TROUBLES:
            self._leads = False  # so that what is left over is noted once the database answers again
            raise
        except Exception:  # noqa: BLE001 # logged, whatever it is
            # One device that cannot be judged must not keep the others waiting.
            _log.exception("device %d cannot be evaluated; it is tried again in a while", device_group.device_id)
            self._let_be[device_group] = self.evaluator.now() + AFTER_FAILURE
            self._losses = 0
            return False
        self._losses = 0
        self._let_be.pop(device_group, None)
        return True

    def _wait_after_loss(self, device_group: DeviceGroup, error: ProcessLostError) -> None:
        """Whichever device it had in hand: each in a row waits longer, for all may need the same process."""
        wait = min(AFTER_LOSS * 2 ** min(self._losses, 10), AFTER_FAILURE)
        self._losses += 1
        self._let_be[device_group] = self.evaluator.now() + wait
        _log.warning(
            "device %d is still to be evaluated: the process that evaluates %s; another one is started in %d s",
            device_group.device_id,
            error,
            wait.total_seconds(),
        )

    def _evaluate_here(self, device_group: DeviceGroup) -> float:
        began_s = time.perf_counter()
        self.evaluator.evaluate_now(device_group)
        return time.perf_counter() - began_s


def evaluation_task(schedule: Schedule) -> Task:
    """Following a schedule as a task of the server."""

    def turn(end: threading.Event) -> float:
        schedule.follow_once(end.is_set)
        return POLL_S

    return Task(
        "evaluator",
        "evaluations wait",
        turn,
        first_after_s=POLL_S,
        after_trouble_s=AFTER_TROUBLE_S,
        at_end=schedule.leadership.resign,
    )
