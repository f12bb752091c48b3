"""
Connections: one engine for SQLite or PostgreSQL, and transactions that read or write.

A read sees one state of the data however many queries it makes, on both databases, and never waits for a write.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from fleetridge_server.db.troubles import DataFile
from fleetridge_server.telemetry.metrics import add_database_time, timed_as_database

DEFAULT_URL = "sqlite:///fleetridge.db"

# Requests that read run in at most so many threads, those that write in so many others, so that a read always finds a
# thread and a connection. A dozen keeps two cores busy; four replicas, each with two processes that take in reports and
# one that evaluates, stay below PostgreSQL's default of 100 connections. Few write at once: marks, and who signs in.
READ_THREADS = 13
WRITE_THREADS = 2

# Reports are taken in by one thread, or by processes that have a connection each.
INTAKE_THREADS = 1

# Whether the server is ready is asked beside all others, so that slow reads do not make it seem dead.
HEALTH_THREADS = 1

# Whose token it is, is asked beside all others, too, and takes a millisecond.
ACCESS_THREADS = 1

# The evaluator keeps one for its lock, and reads or writes with another.
EVALUATOR_CONNECTIONS = 2

# One for the task that sends alerts to the webhook.
NOTIFIER_CONNECTIONS = 1

# One for every thread, so that none ever waits for another's.
_POOL_SIZE = (
    READ_THREADS
    + WRITE_THREADS
    + INTAKE_THREADS
    + HEALTH_THREADS
    + ACCESS_THREADS
    + EVALUATOR_CONNECTIONS
    + NOTIFIER_CONNECTIONS
)

# Only reached when a connection hangs: there is one for every thread.
_POOL_TIMEOUT_S = 10

# A writer waits so long for the one before it. An import holds the lock for a batch, well under a second.
_SQLITE_BUSY_MS = 10_000

# A database in the same network answers in milliseconds; waiting longer only piles requests up.
_POSTGRES_CONNECT_S = 5

# A database whose machine is gone says no goodbye: after a minute of silence the connection counts as lost. The names
# are libpq's.
_POSTGRES_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}

# Likewise PostgreSQL lets go of what a server that is gone, or hangs, holds in an open transaction.
_POSTGRES_IDLE_MS = 60_000

# No query of the server should take a tenth of this. One whose caller has gone away ends then, too.
STATEMENT_TIMEOUT_MS = 10_000

# SQLite asks so often whether to go on: after some thousandths of a second of its steps.
_SQLITE_STEPS = 100_000

# As SQLite's manual advises: enough to plan by, and quick however large the file.
_SQLITE_ANALYZED_ROWS = 1000

_POSTGRES_NAMES = frozenset({"postgres", "postgresql", "postgresql+psycopg"})
_SQLITE_NAMES = frozenset({"sqlite", "sqlite+pysqlite"})
_WRITES = "fleetridge_writes"
_BEGAN = "fleetridge_began"


class DatabaseUrlError(ValueError):
    """The database's address cannot be used; the message says why and what to write instead."""


class ReadOnlyError(RuntimeError):
    """The database takes no writes; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class Database:
    """An open database: an engine for reading (`writing` knows how to write), and the data file of SQLite."""

    engine: Engine
    data_file: DataFile | None = None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Session of one transaction that only reads, all of it from one state of the data."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        engine = self.engine.execution_options(**options) if _is_postgres(self.engine) else self.engine
        with Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """
        Session of one transaction that writes: all of it is stored when the block ends, nothing if it raises.

        On SQLite it waits here for the writer before it, so that nothing read inside can be out of date.

        Raises:
            DataFileError: SQLite's file is no longer the one at its path.
        """
        if self.data_file is not None:
            self.data_file.check_same()
        engine = self.engine.execution_options(**{_WRITES: True})
        with Session(engine, expire_on_commit=False) as session:
            session.connection()
            yield session
            with timed_as_database():
                session.commit()

    def check_writable(self) -> None:
        """
        Make sure that what is written now would be kept.

        Raises:
            DataFileError: SQLite's file is gone or may only be read.
            ReadOnlyError: PostgreSQL takes no writes.
        """
        if self.data_file is not None:
            self.data_file.check_same()
            self.data_file.check_writable()
            return
        with self.engine.connect() as connection:
            if connection.exec_driver_sql("SHOW transaction_read_only").scalar_one() == "on":
                raise ReadOnlyError("the database may only be read (a standby?); point DATABASE_URL at the primary")

    def analyze(self) -> None:
        """Let the database learn how its rows are spread, so that it plans its queries well."""
        with self.writing() as session:
            connection = session.connection()
            if self.data_file is not None:
                connection.exec_driver_sql(f"PRAGMA analysis_limit = {_SQLITE_ANALYZED_ROWS}")
            connection.exec_driver_sql("ANALYZE")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_database(
    database_url: str, *, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS, data_file: DataFile | None = None
) -> Database:
    """
    Engine for a server's requests; nothing is connected yet.

    Args:
        database_url: as `parsed_url` takes it.
        data_file: the one that another process of this server has open.
        statement_timeout_ms: after which a statement is given up; 0 for never, for work that nobody waits for.

    Raises:
        DatabaseUrlError: the address cannot be used.
    """
    url = parsed_url(database_url)
    if data_file is None and url.get_backend_name() == "sqlite":
        data_file = DataFile(Path(url.database or "").absolute())
    engine = create_database_engine(database_url, statement_timeout_ms=statement_timeout_ms)
    if data_file is not None:
        _watch_file(engine, data_file)
    return Database(engine, data_file)


def create_database_engine(
    database_url: str, *, foreign_keys: bool = True, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS
) -> Engine:
    """
    Engine with the settings that all connections share.

    Without `foreign_keys`, as migrations need it to rebuild tables, SQLite guards no references; a timeout of 0 is
    none.

    Raises:
        DatabaseUrlError: the address cannot be used.
    """
    url = parsed_url(database_url)
    pool: dict[str, Any] = {
        "pool_size": _POOL_SIZE,
        "max_overflow": 0,
        "pool_timeout": _POOL_TIMEOUT_S,
        # Each roof of a report has some JSON; the standard library's parser takes ten times as long.
        "json_deserializer": orjson.loads,
    }
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _SQLITE_BUSY_MS / 1000}, **pool)
        _note_time(engine)
        _set_up_sqlite(engine, foreign_keys=foreign_keys)
        if statement_timeout_ms:
            _limit_sqlite_statements(engine, statement_timeout_ms / 1000)
        return engine
    connect: dict[str, Any] = {
        "connect_timeout": _POSTGRES_CONNECT_S,
        **_POSTGRES_KEEPALIVES,
        "options": _postgres_options(url, statement_timeout_ms),
    }
    engine = create_engine(url, connect_args=connect, isolation_level="READ COMMITTED", pool_pre_ping=True, **pool)
    _note_time(engine)
    return engine


def parsed_url(database_url: str) -> URL:
    """
    Address of a database, with the driver that we use.

    Args:
        database_url: `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://user:password@host/name` (also
            spelled `postgres://`).

    Raises:
        DatabaseUrlError: no address, another kind of database, no file name, or a folder that is not there.
    """
    try:
        url = make_url(database_url)
    except (ArgumentError, ValueError):  # whose own words may hold the password
        raise DatabaseUrlError(
            f"the database's address is not a URL; write {DEFAULT_URL} or postgresql://user:password@host/name "
            "(characters such as @ or / in a password are written as %40, %2F)"
        ) from None
    if url.drivername in _POSTGRES_NAMES:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in _SQLITE_NAMES:
        _check_file(url)
        return url.set(drivername="sqlite+pysqlite")
    raise DatabaseUrlError(f"cannot use a database of the kind {url.drivername!r}; use sqlite:/// or postgresql://")


def shown_url(database_url: str) -> str:
    """Address without its password, for people and logs."""
    url = parsed_url(database_url)
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def _check_file(url: URL) -> None:
    if not url.database or url.database.startswith((":memory:", "file:")):
        raise DatabaseUrlError(f"SQLite needs a plain file name, as in {DEFAULT_URL}; nothing is kept in memory alone")
    folder = Path(url.database).absolute().parent
    if not folder.is_dir():
        raise DatabaseUrlError(f"the folder {folder} for the data file does not exist; create it or name another one")


def _postgres_options(url: URL, statement_timeout_ms: int) -> str:
    # Options from the address come last, so that they win. Times in another zone can leave the years that Python knows.
    ours = f"-c timezone=UTC -c statement_timeout={statement_timeout_ms}"
    if statement_timeout_ms:  # work that nobody waits for may also think for long
        ours += f" -c idle_in_transaction_session_timeout={_POSTGRES_IDLE_MS}"
    ours += "".join(f" -c tcp_{name}={value}" for name, value in _POSTGRES_KEEPALIVES.items())
    theirs = url.query.get("options", ())
    return " ".join([ours, theirs] if isinstance(theirs, str) else [ours, *theirs])


def _is_postgres(engine: Engine) -> bool:
    return engine.dialect.name == "postgresql"


def _set_up_sqlite(engine: Engine, *, foreign_keys: bool) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: DBAPIConnection, _record: object) -> None:
        # The module's own handling of transactions begins them late and deferred; we begin them ourselves.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {_SQLITE_BUSY_MS}")  # first: the change to WAL may have to wait
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")  # NORMAL may lose what was acknowledged when the power fails
        cursor.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A transaction that starts by reading cannot wait for the writer before it: SQLite refuses at once.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _note_time(engine: Engine) -> None:
    """Add the time that statements take to the statistics of the request that makes them."""

    @event.listens_for(engine, "before_cursor_execute")
    def _on_execute(connection: Connection, *_statement: object) -> None:
        connection.info[_BEGAN] = time.perf_counter()

    @event.listens_for(engine, "after_cursor_execute")
    def _on_executed(connection: Connection, *_statement: object) -> None:
        add_database_time(time.perf_counter() - connection.info.pop(_BEGAN))

    @event.listens_for(engine, "handle_error")
    def _on_error(context: ExceptionContext) -> None:
        connection = context.connection
        if connection is not None and not connection.invalidated and _BEGAN in connection.info:
            add_database_time(time.perf_counter() - connection.info.pop(_BEGAN))


def _limit_sqlite_statements(engine: Engine, timeout_s: float) -> None:
    """Interrupt statements as PostgreSQL's statement_timeout does; the wait for another writer does not count."""

    @event.listens_for(engine, "before_cursor_execute")
    def _on_execute(connection: Connection, *_statement: object) -> None:
        until = time.monotonic() + timeout_s
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: time.monotonic() > until, _SQLITE_STEPS)


def _watch_file(engine: Engine, data_file: DataFile) -> None:
    @event.listens_for(engine, "do_connect")
    def _before_connect(*_how: object) -> None:
        data_file.check_same()  # else SQLite would make an empty file where the other one was

    @event.listens_for(engine, "connect")
    def _on_connect(_connection: DBAPIConnection, _record: object) -> None:
        data_file.note_opened()
