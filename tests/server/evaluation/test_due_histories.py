"""Histories that an evaluation makes anew: what breaks in between, and what it costs."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fleetridge_server.db.database import open_database
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.evaluation import evaluator, kept_histories
from fleetridge_server.evaluation.kept_histories import histories
from fleetridge_server.verdicts.series import due_notes
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from support.databases import Databases


def interrupted(monkeypatch: pytest.MonkeyPatch, *, after: int, by: Callable[[], object]) -> None:
    """Have histories be made two gpus at a time, and something happen after so many times."""

    def parts(rows: Sequence[int], _size: int) -> Iterator[Sequence[int]]:
        for place, part in enumerate(in_chunks(rows, 2)):
            if place == after:
                by()
            yield part

    monkeypatch.setattr(evaluator, "in_chunks", parts)


def test_an_evaluator_that_is_killed_between_two_transactions_leaves_the_rest_due(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had done is not done again, and nothing is left out."""
    fleet.store(a_fleet({"GPU-2": 0.12}))

    def killed() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        interrupted(patched, after=2, by=killed)
        with pytest.raises(KeyboardInterrupt):
            fleet.evaluate()
    left = fleet.due_gpus()
    with fleet.database.reading() as session:
        noted = set(due_notes(session))
    fleet.evaluate()

    assert left == ["GPU-4", "GPU-5", "GPU-6", "GPU-7"]
    assert noted == {fleet.device_group()}
    assert fleet.due_gpus() == []
    assert fleet.states() == {f"GPU-{number}": "outlier" if number == 2 else "ok" for number in range(8)}


def test_a_gpu_that_reports_behind_an_evaluation_in_progress_is_judged_by_it_and_due_afterwards(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its history was made already; its reports are read in its place until the next evaluation makes it anew."""
    fleet.store(a_fleet(gpus=8, until=NOON - DAY))
    slow = [a_report("GPU-0", 700.0, at=NOON + minutes * HOUR / 60) for minutes in range(3)]

    with monkeypatch.context() as patched:
        interrupted(patched, after=2, by=lambda: fleet.store(slow))
        fleet.evaluate()
    due, values = fleet.due_gpus(), [own.value for own in fleet.verdicts()["GPU-0"].roofs]
    with fleet.database.reading() as session:
        noted = set(due_notes(session))
    fleet.evaluate(fleet.now + HOUR)

    assert due == ["GPU-0"]
    assert min(values) == pytest.approx(700.0)
    assert noted == {fleet.device_group()}
    assert fleet.due_gpus() == []


def steps_for_histories(databases: Databases, gpus: int) -> int:
    """Steps that SQLite takes to make the histories of a fleet and to read them, in hundreds."""
    url = databases.create(migrated=True)
    steps = itertools.count()
    with closing(open_database(url, statement_timeout_ms=0)) as database:
        fleet = Fleet(database)
        fleet.store(a_fleet(gpus=gpus, days=1))
        database.analyze()
        with database.reading() as session:
            driver: Any = session.connection().connection.driver_connection
            driver.set_progress_handler(lambda: next(steps) < 0, 100)
        fleet.evaluator.bring_up_to_date(fleet.device_group())
        with database.reading() as session:
            assert len(histories(session, fleet.device_group(), fleet.now)) == gpus
    databases.drop(url)
    return next(steps)


def test_what_the_database_does_for_histories_grows_with_the_fleet_alone(
    sqlite_databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transactions and statements of few gpus each do not pass over all of them."""
    monkeypatch.setattr(evaluator, "GPUS_AT_ONCE", 2)
    monkeypatch.setattr(kept_histories, "_ROWS_PER_QUERY", 2)

    few, many = (steps_for_histories(sqlite_databases, gpus) for gpus in (40, 160))

    assert many < 1.25 * 4 * few
