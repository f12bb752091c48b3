"""
Bulk writing of rows in few statements, and locking of rows.

SQLAlchemy prepares each row of an insert by itself, which takes longer than storing it. Two ways round that, both with
the columns' own types:

- `insert_rows` and `update_rows`, for rows that arrive with every report: all rows of a call in one statement, on
  SQLite as one list of values, on PostgreSQL as one JSON text that becomes rows there.
- `write_rows`, for tables that an evaluation rewrites as a whole: an insert executed once for many rows with packed
  values, which JSON would have to spell out. Gathering parameters by name, and writing the same few values out again
  and again, would take two thirds of the time of a row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

from pydantic_core import to_json
from sqlalchemy import Boolean, Column, ColumnElement, Dialect, Float, Insert, LargeBinary, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from fleetridge_server.db.column_types import TIMES_REMEMBERED, UtcDateTime, driver_writer

Row = dict[str, Any]

# Some hundredths of a second of writing, and far below the number of parameters that either database takes.
CHUNK_ROWS = 500

_Element = TypeVar("_Element")


def insert_ignoring(session: Session, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Insert that leaves rows alone whose key is taken, as either database spells it."""
    return _insert_ignoring(session.get_bind().dialect.name, table)


@cache
def _insert_ignoring(dialect: str, table: Table) -> postgresql.Insert | sqlite.Insert:
    """The statement, put together once: every report that arrives needs it."""
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing()


def insert_or_replace(session: Session, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Insert that puts the new row in the place of one with the same primary key."""
    key = {column.name for column in table.primary_key.columns}
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    statement = insert(table)
    replaced = {column.name: column for column in statement.excluded if column.name not in key}
    return statement.on_conflict_do_update(index_elements=sorted(key), set_=replaced)


def in_chunks(rows: Sequence[_Element], size: int = CHUNK_ROWS) -> Iterator[Sequence[_Element]]:
    """Rows in parts that one statement takes well within its time."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def locked_rows(session: Session, table: Table, chosen: ColumnElement[bool]) -> list[Row]:
    """
    Rows of a table, which nobody else changes until the transaction ends.

    They are locked in the order of their key, so that two transactions do not wait for each other in a circle.
    """
    query = table.select().where(chosen).order_by(*table.primary_key.columns).with_for_update()
    return [dict(row) for row in session.connection().execute(query).mappings()]


# So many values every build of SQLite takes in one statement.
_MOST_VALUES = 999

_Write = Callable[[Any], Any]


def insert_rows(session: Session, table: Table, rows: Sequence[Row], *, ignoring: bool = False) -> int:
    """Insert rows, all with the same columns; how many were, as `ignoring` leaves out those whose key is taken."""
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


def write_rows(session: Session, table: Table, statement: Insert, rows: Sequence[Row]) -> None:
    """Execute an insert without values, which may replace, for each of some rows, all with the same columns."""
    if not rows:
        return
    connection = session.connection()
    names = list(rows[0])
    compiled = statement.compile(dialect=connection.dialect, column_keys=names)
    if compiled.positional:
        names = list(compiled.positiontup or names)
    written = zip(*(_column(table, name, rows, connection.dialect) for name in names), strict=True)
    parameters = written if compiled.positional else (dict(zip(names, row, strict=True)) for row in written)
    for chunk in in_chunks(list(parameters)):
        connection.exec_driver_sql(str(compiled), chunk)


def _column(table: Table, name: str, rows: Iterable[Row], dialect: Dialect) -> Iterable[Any]:
    """One column of all rows as the driver takes it."""
    values = map(itemgetter(name), rows)
    write = driver_writer(table.columns[name], dialect)
    return values if write is None else map(write, values)
