"""
Many rows into one table in few statements, for rows that arrive with every report.

SQLAlchemy prepares each row of an insert by itself, which takes longer than storing it. Here the rows of a call travel
together: on SQLite as one list of values, on PostgreSQL as one JSON text that becomes rows there. Types are still the
columns' own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Boolean, Column, Dialect, Float, LargeBinary, Table
from sqlalchemy.orm import Session

from fleetridge_server.store.columns import TIMES_REMEMBERED, UtcDateTime, driver_writer
from fleetridge_server.store.upserts import Row, in_chunks

# So many values every build of SQLite takes in one statement.
_MOST_VALUES = 999

_Write = Callable[[Any], Any]


def insert_rows(session: Session, table: Table, rows: Sequence[Row], *, ignoring: bool = False) -> int:
    """
    Insert rows, all with the same columns, and say how many were.

    Args:
        session: of the transaction.
        table: where to.
        rows: values by column.
        ignoring: leave rows alone whose key is taken.
    """
    if not rows:
        return 0
    connection = session.connection()
    way = _way(connection.dialect, table, tuple(rows[0]))
    tail = " ON CONFLICT DO NOTHING" if ignoring else ""
    if connection.dialect.name == "postgresql":
        statement = f"{way.into} SELECT {way.names} FROM {way.records}{tail}"  # noqa: S608 # names of our own columns
        return connection.exec_driver_sql(statement, (way.as_json(rows),)).rowcount
    inserted = 0
    for chunk in in_chunks(rows, _MOST_VALUES // len(way.columns)):
        statement = f"{way.into} VALUES {', '.join([way.marks] * len(chunk))}{tail}"
        inserted += connection.exec_driver_sql(statement, way.as_values(chunk)).rowcount
    return inserted


def update_rows(session: Session, table: Table, rows: Sequence[Row]) -> None:
    """Write rows, all with the same columns, over those with the same `id`."""
    if not rows:
        return
    connection = session.connection()
    names = (*(name for name in rows[0] if name != "id"), "id")
    way = _way(connection.dialect, table, names)
    changed = way.quoted[:-1]
    if connection.dialect.name == "postgresql":
        changes = ", ".join(f"{name} = records.{name}" for name in changed)
        statement = f"{way.over} SET {changes} FROM {way.records} WHERE {way.table}.id = records.id"
        connection.exec_driver_sql(statement, (way.as_json(rows),))
        return
    changes = ", ".join(f"{name} = ?" for name in changed)
    connection.exec_driver_sql(f"{way.over} SET {changes} WHERE id = ?", [way.as_values([row]) for row in rows])


@dataclass(frozen=True, slots=True)
class _Way:
    """
    How rows of some columns of one table travel to one database.

    Attributes:
        table: its name as SQL has it.
        columns: their names, in order; at least two.
        quoted: the same as SQL has them.
        writes: what makes a value one of the driver's (SQLite) or of JSON (PostgreSQL), for columns that need it.
        types: of the columns, as PostgreSQL calls them.
    """

    table: str
    columns: tuple[str, ...]
    quoted: tuple[str, ...]
    writes: tuple[tuple[str, _Write], ...]
    types: tuple[str, ...]

    @property
    def names(self) -> str:
        """Columns as SQL lists them."""
        return ", ".join(self.quoted)

    @property
    def into(self) -> str:
        """Beginning of an insert."""
        return f"INSERT INTO {self.table} ({self.names})"

    @property
    def over(self) -> str:
        """Beginning of an update."""
        return f"UPDATE {self.table}"

    @property
    def marks(self) -> str:
        """Places for the values of one row."""
        return f"({', '.join('?' * len(self.columns))})"

    @property
    def records(self) -> str:
        """The rows of one JSON text."""
        fields = ", ".join(f"{name} {kind}" for name, kind in zip(self.quoted, self.types, strict=True))
        return f"json_to_recordset(%s) AS records({fields})"

    def as_values(self, rows: Sequence[Row]) -> tuple[Any, ...]:
        """All values of some rows, one after the other."""
        values_of = itemgetter(*self.columns)
        return tuple(chain.from_iterable(values_of(row | self._written(row)) for row in rows))

    def as_json(self, rows: Sequence[Row]) -> str:
        """JSON text of some rows."""
        return to_json([row | self._written(row) for row in rows]).decode()

    def _written(self, row: Row) -> Row:
        return {name: write(row[name]) for name, write in self.writes}


@cache
def _way(dialect: Dialect, table: Table, columns: tuple[str, ...]) -> _Way:
    chosen = [table.columns[name] for name in columns]
    write = _write_json if dialect.name == "postgresql" else _write_value
    quote = dialect.identifier_preparer.quote
    return _Way(
        table=quote(table.name),
        columns=columns,
        quoted=tuple(map(quote, columns)),
        writes=tuple((column.name, own) for column in chosen if (own := write(column, dialect)) is not None),
        types=tuple(column.type.compile(dialect) for column in chosen),
    )


def _write_value(column: Column[Any], dialect: Dialect) -> _Write | None:
    if isinstance(column.type, Boolean | Float):
        return None  # the driver knows them
    return driver_writer(column, dialect)


def _write_json(column: Column[Any], dialect: Dialect) -> _Write | None:
    kind = column.type
    if isinstance(kind, LargeBinary):
        return _hexadecimal
    if isinstance(kind, UtcDateTime):
        return lru_cache(TIMES_REMEMBERED)(lambda value: kind.process_bind_param(value, dialect))
    return None


def _hexadecimal(value: bytes | None) -> str | None:
    """Bytes as PostgreSQL reads them."""
    return None if value is None else f"\\x{value.hex()}"
