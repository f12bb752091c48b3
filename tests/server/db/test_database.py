from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from fleetridge_server.db import database as room
from fleetridge_server.db.database import DatabaseUrlError, create_database_engine, open_database, parsed_url, shown_url
from fleetridge_server.db.tables import Device, DeviceNameRow, Node
from fleetridge_server.db.troubles import trouble
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from fleetridge_server.db.database import Database
    from support.databases import PostgresDatabases, SqliteDatabases

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_means_one_driver(scheme: str) -> None:
    """Platforms that lend databases spell the address in their own ways."""
    assert parsed_url(f"{scheme}://user@host/name").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "write sqlite:///"),
        ("fleetridge.db", "write sqlite:///"),
        ("postgresql://user:p@ss:word/x@host:port/name", "%40"),
        ("mysql://host/name", "use sqlite:/// or postgresql://"),
        ("sqlite://", "plain file name"),
        ("sqlite:///:memory:", "plain file name"),
        ("sqlite:///file:x.db?mode=ro&uri=true", "plain file name"),
        ("sqlite:////no/such/folder/x.db", "create it"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_a_remedy(url: str, remedy: str) -> None:
    """The sentence says what to write instead."""
    with pytest.raises(DatabaseUrlError) as refusal:
        parsed_url(url)

    assert remedy in str(refusal.value)


def test_no_password_is_shown() -> None:
    """Addresses end up in logs."""
    assert shown_url("postgres://user:secret@host/name") == "postgresql://user:***@host/name"


def test_a_file_is_made_where_the_address_says(tmp_path: Path) -> None:
    """A name with a percent sign or a space is a name like any other."""
    path = tmp_path / "a b%c.db"
    database = open_database(f"sqlite:///{path}")
    with database.writing() as session:
        session.execute(text("CREATE TABLE x (y INTEGER)"))
    database.close()

    assert path.is_file()


def test_a_write_that_fails_leaves_nothing(database: Database) -> None:
    """All of a transaction or nothing."""
    rows = [{"name": "a", "slug": "a"}, {"name": "a", "slug": "b"}]
    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(insert(Device), rows)

    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Device)) == 0


def test_references_are_guarded(database: Database) -> None:
    """A row that refers to nothing is refused by both databases."""
    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(insert(DeviceNameRow).values(name="a", device_id=1))


def test_a_read_sees_one_state_and_does_not_wait_for_a_write(database: Database) -> None:
    """What others store meanwhile shows in the next read."""
    count = select(func.count()).select_from(Device)
    with database.writing() as writing:
        writing.execute(insert(Device).values(name="a", slug="a"))
        with database.reading() as reading:
            before = reading.scalar(count)
    with database.reading() as reading:
        between = reading.scalar(count)
        with database.writing() as writing:
            writing.execute(insert(Device).values(name="b", slug="b"))
        within = reading.scalar(count)
    with database.reading() as reading:
        after = reading.scalar(count)

    assert (before, between, within, after) == (0, 1, 1, 2)


def test_a_read_cannot_write(postgres_databases: PostgresDatabases) -> None:
    """PostgreSQL refuses the slip, which SQLite would let pass."""
    url = postgres_databases.create(migrated=True)
    database = open_database(url)
    with pytest.raises(DBAPIError, match="read-only"), database.reading() as session:
        session.execute(insert(Device).values(name="a", slug="a"))
    database.close()
    postgres_databases.drop(url)


def test_writers_that_read_first_wait_for_each_other(database: Database) -> None:
    """Eight threads that each count up a number lose no step and see no locked database."""
    with database.writing() as session:
        session.execute(insert(Device).values(name="0", slug="counter"))

    def count_up() -> None:
        for _ in range(5):
            with database.writing() as session:
                held = session.scalar(select(Device.name).where(Device.slug == "counter").with_for_update())
                session.execute(update(Device).values(name=str(int(held or 0) + 1)))

    threads = [threading.Thread(target=count_up) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    with database.reading() as session:
        assert session.scalar(select(Device.name)) == "40"


def test_a_statement_that_takes_too_long_is_given_up(database_url: str) -> None:
    """So that no query runs for ever, and the reason can be told."""
    engine = create_database_engine(database_url, statement_timeout_ms=500)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    try:
        with engine.connect() as connection:
            with pytest.raises(OperationalError) as caught:
                connection.exec_driver_sql(endless)
            connection.rollback()
            assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
    finally:
        engine.dispose()

    assert "took too long" in (trouble(caught.value) or "")


def test_what_is_stored_is_on_the_disk_before_it_is_acknowledged(sqlite_databases: SqliteDatabases) -> None:
    """Also where the power fails; SQLite's own advice for its journal gives that up."""
    url = sqlite_databases.create(migrated=True)
    with closing(open_database(url)) as database, database.writing() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 2


def hang_until_another_takes_over(database: Database) -> None:
    with database.writing() as session:
        session.execute(text("LOCK TABLE reports"))
        with database.writing() as other:
            other.execute(text("LOCK TABLE reports"))
        session.execute(text("SELECT 1"))


def test_a_transaction_that_hangs_lets_go_of_what_it_holds(
    postgres_databases: PostgresDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is gone without a goodbye holds up no other; whoever comes back to it is told to try again."""
    monkeypatch.setattr(room, "_POSTGRES_IDLE_MS", 100)
    url = postgres_databases.create(migrated=True)
    with closing(open_database(url)) as database, pytest.raises(DBAPIError) as caught:
        hang_until_another_takes_over(database)
    postgres_databases.drop(url)

    assert "send the same again" in (trouble(caught.value) or "")


def test_analyzing_changes_no_row(database: Database) -> None:
    """And may be done at any time."""
    database.analyze()

    with database.reading() as session:
        assert session.scalars(select(Node)).all() == []
