from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from fleetridge_server.access.token_text import sha256_of
from fleetridge_server.ingest.intake import Accepted, examined
from fleetridge_server.store import report_writer
from fleetridge_server.store.models import Report
from fleetridge_server.store.report_writer import ReportWriter
from fleetridge_server.store.tokens import NewToken, add_token
from fleetridge_server.store.writing import Posted, Stored, write_calls
from support.reports import make_report
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleetridge_server.store.database import Database

TIMEOUT_S = 60
THREADS = 8

Write: TypeAlias = "Callable[[Database, Sequence[Posted]], list[list[Stored]]]"


def item(number: int = 1) -> Accepted:
    outcome = examined(make_report(gpu__uuid=f"GPU-{number}"), sent_at=None, received_at=NOW)
    assert isinstance(outcome, Accepted)
    return outcome


def stored(database: Database) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(Report)) or 0


def made_token(database: Database, *, quarantined: bool) -> int:
    """Row of a new token."""
    with database.writing() as session:
        name = f"quarantined: {quarantined}"
        token = add_token(session, NewToken(name, sha256_of(name), frozenset({"ingest"})), NOW)
        token.quarantined_at = NOW if quarantined else None
        return token.id


class Crowd:
    """Calls that come while another is being stored, so that they are stored together."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch, write: Write = write_calls) -> None:
        self.transactions: list[int] = []
        self._go_on = threading.Event()
        self._entered = threading.Event()
        self._write = write
        monkeypatch.setattr(report_writer, "write_calls", self._write_when_told)
        self._writer = ReportWriter(database)

    def outcomes(self, calls: Sequence[Posted]) -> list[Future[list[Stored]]]:
        """What becomes of each call, all of which wait for one before them."""
        with ThreadPoolExecutor(THREADS) as threads:
            threads.submit(self._writer.write, Posted([item(99)]))
            assert self._entered.wait(TIMEOUT_S)
            futures = []
            for place, call in enumerate(calls, start=1):
                futures.append(threads.submit(self._writer.write, call))
                while self._writer.waiting < place:
                    time.sleep(0.001)
            self._go_on.set()
        return futures

    def _write_when_told(self, database: Database, calls: Sequence[Posted]) -> list[list[Stored]]:
        self._entered.set()
        assert self._go_on.wait(TIMEOUT_S)
        self.transactions.append(len(calls))
        return self._write(database, calls)


def test_calls_that_wait_are_stored_in_one_transaction(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told of its own reports."""
    crowd = Crowd(database, monkeypatch)

    outcomes = crowd.outcomes([Posted([item(1), item(2)]), Posted([item(3)]), Posted([item(4)])])

    assert [outcome.result() for outcome in outcomes] == [["created", "created"], ["created"], ["created"]]
    assert crowd.transactions == [1, 3]
    assert stored(database) == 5


def test_the_same_report_in_two_calls_is_stored_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever came first has made it."""
    same = item()

    outcomes = Crowd(database, monkeypatch).outcomes([Posted([same]), Posted([same, item(2)]), Posted([same])])

    assert [outcome.result() for outcome in outcomes] == [["created"], ["duplicate", "created"], ["duplicate"]]
    assert stored(database) == 3


def test_each_call_is_stored_under_its_own_token(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them may be in quarantine, and that is no matter of the others."""
    tokens = [made_token(database, quarantined=is_quarantined) for is_quarantined in (False, True)]
    items = [item(number) for number in (1, 2)]

    for outcome in Crowd(database, monkeypatch).outcomes(list(map(Posted, [[own] for own in items], tokens))):
        outcome.result()
    with database.reading() as session:
        found = {row.id: (row.token_id, row.quarantined) for row in session.scalars(select(Report))}

    ids = [own.report.report_id for own in items]
    assert [found[report_id] for report_id in ids] == [(tokens[0], False), (tokens[1], True)]


def test_a_call_that_cannot_be_stored_takes_no_other_with_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is stored, and all of the others'."""
    bad = item(2)

    def write(database: Database, calls: Sequence[Posted]) -> list[list[Stored]]:
        outcomes = write_calls(database, [call for call in calls if bad not in call.accepted])
        if any(bad in call.accepted for call in calls):
            raise LookupError("of this one alone")
        return outcomes

    crowd = Crowd(database, monkeypatch, write)
    first, second, third = crowd.outcomes([Posted([item(1)]), Posted([bad]), Posted([item(3)])])

    assert isinstance(second.exception(), LookupError)
    assert first.exception() is third.exception() is None
    assert stored(database) == 3


def test_a_database_that_takes_nothing_is_asked_once_for_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of them would wait in turn for the same."""

    def refuse(_database: Database, _calls: Sequence[Posted]) -> list[list[Stored]]:
        raise OperationalError("BEGIN", {}, Exception("database is locked"))

    crowd = Crowd(database, monkeypatch, refuse)
    outcomes = crowd.outcomes([Posted([item(number)]) for number in (1, 2, 3)])

    assert [type(outcome.exception()) for outcome in outcomes] == [OperationalError] * 3
    assert crowd.transactions == [1, 3]


def test_no_transaction_takes_more_than_so_many_reports(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls wait; a call that is larger by itself is one."""
    monkeypatch.setattr(report_writer, "_MOST_REPORTS", 3)
    sizes = [2, 1, 1, 5, 1]
    crowd = Crowd(database, monkeypatch)

    outcomes = crowd.outcomes(
        [Posted([item(10 * place + one) for one in range(size)]) for place, size in enumerate(sizes)]
    )

    assert [len(outcome.result()) for outcome in outcomes] == sizes
    assert crowd.transactions == [1, 2, 1, 1, 1]
