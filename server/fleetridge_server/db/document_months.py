"""
Months of documents: on PostgreSQL each is a table of its own, a partition of `documents`, that retention drops whole.

There is no default partition, since beside one PostgreSQL cannot detach another without locking all of them. Months are
made ahead, and whoever stores a document of a month that has no table makes that table. Nothing here waits for, or
holds up, those who store reports. On SQLite there is one table, and nothing to do.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import NamedTuple

from psycopg.errors import CheckViolation
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError

# A server that is started once a quarter finds its months made; an empty one costs three small files.
MONTHS_AHEAD = 3

# Any numbers that nothing else locks in this database: the words "month" and "retain".
_MAKING_LOCK = int.from_bytes(b"month", "big")
_DROPPING_LOCK = int.from_bytes(b"retain", "big")

# Who makes a month waits for a moment only; who drops one waits for transactions that may still read it.
_MAKING_LOCK_TIMEOUT = "5s"
_DROPPING_LOCK_TIMEOUT = "60s"

# Marks a month that retention has detached, as against one that somebody detached to keep it.
_DROPPED = "detached by fleetridge-server retention, to be dropped"

_NAME = re.compile(r"documents_(\d{4})_(\d{2})")
_MONTHS_IN_YEAR = 12


class Month(NamedTuple):
    """A month of arrival, in UTC."""

    year: int
    month: int

    @property
    def table(self) -> str:
        """Name of its table."""
        return f"documents_{self.year:04}_{self.month:02}"

    @property
    def start(self) -> datetime:
        """First moment of it."""
        return datetime(self.year, self.month, 1, tzinfo=timezone.utc)

    @property
    def next(self) -> Month:
        """The month after it."""
        return Month(self.year + self.month // _MONTHS_IN_YEAR, self.month % _MONTHS_IN_YEAR + 1)

    def __str__(self) -> str:
        """As ISO 8601 writes it."""
        return f"{self.year:04}-{self.month:02}"


class MonthsBusyError(RuntimeError):
    """Another process drops months at this moment."""


def month_of(moment: datetime) -> Month:
    """Month that a time lies in."""
    in_utc = moment.astimezone(timezone.utc)
    return Month(in_utc.year, in_utc.month)


def months_ahead(now: datetime) -> list[Month]:
    """This month and those that should have a table by now."""
    months = [month_of(now)]
    for _ in range(MONTHS_AHEAD):
        months.append(months[-1].next)
    return months


def lacks_month(error: IntegrityError) -> bool:
    """Whether rows were refused because their month has no table."""
    found = error.orig
    # A violated check has a name; where no partition takes a row there is none.
    return isinstance(found, CheckViolation) and found.diag.constraint_name is None


def make_months(engine: Engine, months: Iterable[Month]) -> None:
    """
    Make the tables of some months where they are missing; others may do the same at once.

    Raises:
        sqlalchemy.exc.DBAPIError: the database is busy or out of reach, or its user may not make tables.
    """
    if engine.dialect.name != "postgresql":
        return
    wanted = set(months)
    with engine.begin() as connection:
        make_months_within(connection, wanted)


def make_months_within(connection: Connection, months: Iterable[Month]) -> None:
    """Make the tables of some months within a transaction of the caller's, which reads what is committed."""
    if not _is_partitioned(connection):
        return
    missing = set(months) - _attached(connection).keys()
    if not missing:
        return
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MAKING_LOCK})
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_MAKING_LOCK_TIMEOUT}'")
    for month in sorted(missing - _attached(connection).keys()):  # again: others may have made some meanwhile
        # A table that is made first and attached then needs no lock that keeps rows out of the others.
        connection.exec_driver_sql(f"CREATE TABLE {month.table} (LIKE documents INCLUDING STORAGE)")
        connection.exec_driver_sql(
            f"ALTER TABLE documents ATTACH PARTITION {month.table} "
            f"FOR VALUES FROM ('{month.start.isoformat()}') TO ('{month.next.start.isoformat()}')"
        )


def drop_months(engine: Engine, before: datetime) -> Generator[Month, None, None]:
    """
    Drop months that were over before a time, the oldest first; each is yielded once it is gone.

    One that a killed process has left half dropped is dropped first. Reports are stored meanwhile.

    Raises:
        MonthsBusyError: another process does so.
        sqlalchemy.exc.DBAPIError: someone reads documents for too long, or the database is out of reach; to be tried
            again later.
    """
    if engine.dialect.name != "postgresql":
        return
    with _dropping(engine) as connection:
        for month, is_detaching in sorted(_attached(connection).items()):
            if is_detaching:
                connection.exec_driver_sql(f"ALTER TABLE documents DETACH PARTITION {month.table} FINALIZE")
        for month in _left_over(connection):
            connection.exec_driver_sql(f"DROP TABLE {month.table}")
            yield month
        for month in sorted(_attached(connection)):
            if month.next.start <= before:
                connection.exec_driver_sql(f"COMMENT ON TABLE {month.table} IS '{_DROPPED}'")
                connection.exec_driver_sql(f"ALTER TABLE documents DETACH PARTITION {month.table} CONCURRENTLY")
                connection.exec_driver_sql(f"DROP TABLE {month.table}")
                yield month


@contextmanager
def _dropping(engine: Engine) -> Iterator[Connection]:
    """A connection without transactions, as detaching needs it, of the only process that drops months."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        try:
            if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _DROPPING_LOCK}):
                raise MonthsBusyError("another process drops documents at this moment; it will do")
            connection.exec_driver_sql("SET statement_timeout = 0")
            connection.exec_driver_sql(f"SET lock_timeout = '{_DROPPING_LOCK_TIMEOUT}'")
            yield connection
        finally:
            connection.invalidate()  # lock and settings end with it, instead of going back to the pool


def _is_partitioned(connection: Connection) -> bool:
    """Whether it has the schema in which documents have months."""
    query = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass('documents')"
    return connection.exec_driver_sql(query).scalar() is True


def _attached(connection: Connection) -> dict[Month, bool]:
    """Months that have a table, and whether that one is half detached."""
    query = (
        "SELECT relname, inhdetachpending FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid "
        "WHERE inhparent = to_regclass('documents')"
    )
    return {month: pending for name, pending in connection.exec_driver_sql(query) if (month := _named(name))}


def _left_over(connection: Connection) -> list[Month]:
    """Months that retention has detached and not dropped."""
    query = text(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition AND relname LIKE 'documents%' "
        "AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('documents')) "
        "AND obj_description(oid, 'pg_class') = :comment"
    )
    return sorted(month for name in connection.scalars(query, {"comment": _DROPPED}) if (month := _named(name)))


def _named(table: str) -> Month | None:
    found = _NAME.fullmatch(table)
    return None if found is None else Month(int(found[1]), int(found[2]))
