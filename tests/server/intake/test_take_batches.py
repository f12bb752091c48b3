from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from fleetridge_server.auth.tokens import NewToken, sha256_of, store_token
from fleetridge_server.db.tables import Report
from fleetridge_server.intake import take
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import LostRaceError, Stored, write_calls
from fleetridge_server.intake.take import write_together
from support.reports import make_report
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleetridge_server.db.database import Database

Write: TypeAlias = "Callable[[Database, Sequence[Sequence[Accepted]]], list[list[Stored]]]"


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
        token = store_token(session, NewToken(name, sha256_of(name), frozenset({"ingest"})), NOW)
        token.quarantined_at = NOW if quarantined else None
        return token.id


def transactions(monkeypatch: pytest.MonkeyPatch, write: Write = write_calls) -> list[int]:
    """Calls of each transaction from now on."""
    made: list[int] = []

    def noting(database: Database, calls: Sequence[Sequence[Accepted]]) -> list[list[Stored]]:
        made.append(len(calls))
        return write(database, calls)

    monkeypatch.setattr(take, "write_calls", noting)
    return made


def test_calls_are_stored_in_one_transaction(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told of its own reports."""
    made = transactions(monkeypatch)

    outcomes = write_together(database, [[item(1), item(2)], [item(3)], [item(4)]])

    assert outcomes == [["created", "created"], ["created"], ["created"]]
    assert made == [3]
    assert stored(database) == 4


def test_the_same_report_in_two_calls_is_stored_once(database: Database) -> None:
    """Whoever came first has made it."""
    same = item()

    outcomes = write_together(database, [[same], [same, item(2)], [same]])

    assert outcomes == [["created"], ["duplicate", "created"], ["duplicate"]]
    assert stored(database) == 2


def test_each_call_is_stored_under_its_own_token(database: Database) -> None:
    """One of them may be in quarantine, and that is no matter of the others."""
    tokens = [made_token(database, quarantined=is_quarantined) for is_quarantined in (False, True)]
    items = [item(number) for number in (1, 2)]

    write_together(database, [[replace(own, token_id=token)] for own, token in zip(items, tokens, strict=True)])
    with database.reading() as session:
        found = {row.id: (row.token_id, row.quarantined) for row in session.scalars(select(Report))}

    ids = [own.report.report_id for own in items]
    assert [found[report_id] for report_id in ids] == [(tokens[0], False), (tokens[1], True)]


@pytest.mark.parametrize("error", [LookupError("of this one alone"), LostRaceError("somebody else sends it, too")])
def test_a_call_that_cannot_be_stored_takes_no_other_with_it(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Nothing of it is stored, and all of the others'."""
    bad = item(2)

    def write(database: Database, calls: Sequence[Sequence[Accepted]]) -> list[list[Stored]]:
        if any(bad in call for call in calls):
            raise error
        return write_calls(database, calls)

    made = transactions(monkeypatch, write)
    outcomes = write_together(database, [[item(1)], [bad], [item(3)]])

    assert outcomes == [["created"], error, ["created"]]
    assert made == [3, 1, 1, 1]
    assert stored(database) == 2


def test_a_database_that_takes_nothing_is_asked_once_for_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of them would wait in turn for the same."""
    locked = OperationalError("BEGIN", {}, Exception("database is locked"))

    def refuse(_database: Database, _calls: Sequence[Sequence[Accepted]]) -> list[list[Stored]]:
        raise locked

    made = transactions(monkeypatch, refuse)
    outcomes = write_together(database, [[item(number)] for number in (1, 2, 3)])

    assert outcomes == [locked] * 3
    assert made == [3]
