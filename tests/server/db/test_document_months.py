from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.document_months import (
    MONTHS_AHEAD,
    Month,
    MonthsBusyError,
    drop_months,
    lacks_month,
    make_months,
    month_of,
    months_ahead,
)
from fleetridge_server.db.tables import Document, Report
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from support.patience import PATIENCE_S
from support.reports import make_report
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.databases import PostgresDatabases

FAR = datetime(2031, 5, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)


@pytest.fixture
def postgres(postgres_databases: PostgresDatabases) -> Iterator[Database]:
    """An open PostgreSQL database; SQLite keeps one table."""
    url = postgres_databases.create(migrated=True)
    opened = open_database(url)
    yield opened
    opened.close()
    postgres_databases.drop(url)


def store(database: Database, received_at: datetime) -> UUID:
    """Store a report that arrived at a time; its id."""
    item = examined(make_report(), sent_at=None, received_at=received_at)
    assert isinstance(item, Accepted)
    assert write_reports(database, [item]) == ["created"]
    return item.report.report_id


def months(database: Database) -> set[str]:
    """Tables of months."""
    query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'documents'::regclass"
    with database.engine.connect() as connection:
        return set(connection.exec_driver_sql(query).scalars())


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.timezones()))  # noqa: DTZ001 # hypothesis adds the zone
def test_every_moment_lies_in_its_month_alone(moment: datetime) -> None:
    """From the first moment of it to before the first of the next, in UTC."""
    month = month_of(moment)

    assert month.start <= moment < month.next.start
    assert month.next.start - month.start in [timedelta(days=days) for days in (28, 29, 30, 31)]


def test_months_are_made_ahead_when_a_database_is_migrated(postgres: Database) -> None:
    """This one and the next few."""
    expected = {month.table for month in months_ahead(datetime.now(timezone.utc))}

    assert expected <= months(postgres)
    assert len(expected) == 1 + MONTHS_AHEAD


@pytest.mark.parametrize("received_at", [FAR, datetime(1970, 1, 1, tzinfo=timezone.utc)])
def test_a_report_of_a_month_that_nobody_made_is_stored(database: Database, received_at: datetime) -> None:
    """As when a clock jumps, or a server runs for longer than months were made for."""
    report_id = store(database, received_at)

    with database.reading() as session:
        assert session.get(Document, (received_at, report_id)) is not None


def test_sixteen_that_begin_a_month_at_once_all_store_their_reports(database: Database) -> None:
    """One of them makes it."""
    start = threading.Barrier(16)

    def work() -> None:
        start.wait(PATIENCE_S)
        store(database, FAR)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    with database.reading() as session:
        assert len(session.scalars(select(Document.report_id)).all()) == 16


def test_a_month_is_made_while_reports_are_stored(postgres: Database) -> None:
    """It waits for no transaction that writes documents."""
    store(postgres, NOW)
    with postgres.writing() as session:
        session.execute(text("UPDATE documents SET body = ''"))
        make_months(postgres.engine, [month_of(FAR)])

    assert month_of(FAR).table in months(postgres)


def test_a_document_is_looked_for_in_its_month_alone(postgres: Database) -> None:
    """However many there are."""
    store(postgres, NOW)
    plan = "EXPLAIN SELECT body FROM documents WHERE received_at = '2026-11-20 03:00+00' AND report_id = '{}'"
    with postgres.engine.connect() as connection:
        told = "\n".join(connection.exec_driver_sql(plan.format(UUID(int=1))).scalars())

    assert "documents_2026_11" in told
    assert "Append" not in told


def test_a_fault_of_the_data_is_not_taken_for_a_month_that_is_missing(postgres: Database) -> None:
    """Making months would not mend it."""
    with postgres.writing() as session:
        session.execute(text("ALTER TABLE documents ADD CONSTRAINT small CHECK (length(body) < 3)"))
        insert = text("INSERT INTO documents VALUES ('2026-11-20', gen_random_uuid(), 'large')")
    with pytest.raises(IntegrityError) as refused, postgres.writing() as session:
        session.execute(insert)

    assert not lacks_month(refused.value)


def test_months_that_were_over_are_dropped_and_no_others(postgres: Database) -> None:
    """The oldest first; reports stay."""
    old = [datetime(2026, month, 15, tzinfo=timezone.utc) for month in (7, 8, 9)]
    for arrived in (*old, NOW):
        store(postgres, arrived)

    dropped = list(drop_months(postgres.engine, datetime(2026, 9, 1, tzinfo=timezone.utc)))

    assert dropped == [Month(2026, 7), Month(2026, 8)]
    with postgres.reading() as session:
        assert sorted(session.scalars(select(Document.received_at))) == [old[2], NOW]
        assert len(session.scalars(select(Report.id)).all()) == 4
    assert list(drop_months(postgres.engine, datetime(2026, 9, 1, tzinfo=timezone.utc))) == []


@pytest.mark.parametrize("killed", ["before detaching", "within detaching", "before dropping"])
def test_what_a_killed_process_left_of_a_month_is_dropped_by_the_next(postgres: Database, killed: str) -> None:
    """Half detached, or detached and not dropped; whenever it was killed."""
    store(postgres, NOW)
    name = month_of(NOW).table
    with postgres.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        comment = "detached by fleetridge-server retention, to be dropped"
        connection.exec_driver_sql(f"COMMENT ON TABLE {name} IS '{comment}'")
        if killed == "within detaching":
            half_detach(postgres, name)
        elif killed == "before dropping":
            connection.exec_driver_sql(f"ALTER TABLE documents DETACH PARTITION {name}")

    dropped = list(drop_months(postgres.engine, NOW + timedelta(days=30)))

    assert dropped == [month_of(NOW)]
    with postgres.engine.connect() as connection:
        assert connection.scalar(text("SELECT to_regclass(:name)"), {"name": name}) is None
    store(postgres, NOW)


def half_detach(database: Database, name: str) -> None:
    """Have detaching begin, and end it while it waits for somebody who reads."""
    with database.reading() as session:
        session.execute(select(Document.report_id)).all()
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("SET lock_timeout = '50ms'")
            with pytest.raises(Exception, match="lock timeout"):
                connection.exec_driver_sql(f"ALTER TABLE documents DETACH PARTITION {name} CONCURRENTLY")
            connection.invalidate()


def test_a_month_that_somebody_detached_to_keep_it_stays(postgres: Database) -> None:
    """Retention drops only what it has detached itself."""
    store(postgres, NOW)
    name = month_of(NOW).table
    with postgres.writing() as session:
        session.execute(text(f"ALTER TABLE documents DETACH PARTITION {name}"))

    assert list(drop_months(postgres.engine, FAR)) != [month_of(NOW)]
    with postgres.engine.connect() as connection:
        assert connection.scalar(text(f"SELECT count(*) FROM {name}")) == 1  # noqa: S608 # ours


def test_two_do_not_drop_at_once(postgres: Database) -> None:
    """The second is told so, and can go."""
    for arrived in (datetime(2026, 7, 15, tzinfo=timezone.utc), datetime(2026, 8, 15, tzinfo=timezone.utc)):
        store(postgres, arrived)
    first = drop_months(postgres.engine, NOW)
    next(first)

    with pytest.raises(MonthsBusyError, match="another process"):
        next(drop_months(postgres.engine, NOW))
    assert list(first) == [Month(2026, 8)]
