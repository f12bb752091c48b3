"""
Calls that bring reports at the same time, stored in one transaction.

A transaction takes some twenty statements however few reports it stores, and on SQLite only one is under way at a time.
So whoever comes meanwhile waits, and the next transaction takes all who wait. For each of them it is as if it had come
alone: it is told once its reports are stored, and a call that cannot be stored takes no other with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import final

from fleetridge_server.store.database import Database
from fleetridge_server.store.trouble import trouble
from fleetridge_server.store.writing import Posted, Stored, write_calls

# The reports of eight nodes of eight gpus: a tenth of a second of writing, so that no statement gets long.
_MOST_REPORTS = 64


@dataclass(frozen=True, slots=True)
class _Waiting:
    posted: Posted
    outcome: Future[list[Stored]] = field(default_factory=Future)


@final
class ReportWriter:
    """
    Stores reports for several threads at once.

    Args:
        database: where to.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Waiting] = deque()
        self._storing = Lock()

    @property
    def waiting(self) -> int:
        """How many calls wait for the one that is being stored."""
        return len(self._waiting)

    def write(self, posted: Posted) -> list[Stored]:
        """Store what is new of a call's reports; `write_calls` says what comes of it."""
        own = _Waiting(posted)
        self._waiting.append(own)
        with self._storing:
            while not own.outcome.done():  # by who stored before
                self._store_next()
        return own.outcome.result()

    def _store_next(self) -> None:
        """Store the calls that have waited longest."""
        calls = [self._waiting.popleft()]
        reports = len(calls[0].posted.accepted)
        while self._waiting and reports + len(self._waiting[0].posted.accepted) <= _MOST_REPORTS:
            calls.append(self._waiting.popleft())
            reports += len(calls[-1].posted.accepted)
        self._store(calls)

    def _store(self, calls: Sequence[_Waiting]) -> None:
        try:
            outcomes = write_calls(self._database, [call.posted for call in calls])
        except Exception as error:  # noqa: BLE001 # raised again where the call waits
            self._refuse(calls, error)
            return
        for call, own in zip(calls, outcomes, strict=True):
            call.outcome.set_result(own)

    def _refuse(self, calls: Sequence[_Waiting], error: Exception) -> None:
        """Tell all of an error that would meet each of them; else find out whose it is."""
        if len(calls) > 1 and trouble(error) is None:
            for call in calls:
                self._store([call])
            return
        for call in calls:
            call.outcome.set_exception(error)
