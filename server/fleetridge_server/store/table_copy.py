"""
Rows of one table into another database, some at a time, in the order of the key.

A row that is there already, the same in every column, is not written again; so a copy that was interrupted goes on at
the cost of reading. New rows go in as a stream (`COPY`) on PostgreSQL, by one statement for all on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import psycopg
from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    tuple_,
    type_coerce,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from fleetridge_server.store.columns import PackedJson
from fleetridge_server.store.database import Database
from fleetridge_server.store.document_months import make_months, month_of
from fleetridge_server.store.models import Document
from fleetridge_server.store.upserts import Row, in_chunks, insert_or_replace

# A transaction of a few hundredths of a second; bodies weigh some kilobytes each.
ROWS_AT_ONCE = 1000
BODIES_AT_ONCE = 200

# Keys of one look-up: two or three parameters each, below the 32,766 that SQLite takes.
_KEYS_AT_ONCE = 1000

Key = tuple[Any, ...]


def count_rows(session: Session, table: Table) -> int:
    """How many rows a table has."""
    return session.execute(select(func.count()).select_from(table)).scalar_one()


def copy_rows(source: Session, target: Database, table: Table, on_rows: Callable[[int], None]) -> None:
    """
    Make the rows of a table in another database those that a source has; others that are there stay.

    Args:
        source: of a transaction that sees one state of the data.
        target: each batch is a transaction of its own.
        table: to copy.
        on_rows: is told of each batch how many rows it had.
    """
    with target.reading() as session:
        is_new = session.execute(select(*table.primary_key.columns).limit(1)).first() is None
    for rows in _batches(source, table):
        if table is Document.__table__:
            make_months(target.engine, {month_of(row["received_at"]) for row in rows})
        with target.writing() as session:
            known = {} if is_new else _known(session, table, [_key(table, row) for row in rows])
            _add(session, table, [row for row in rows if _key(table, row) not in known])
            _replace(session, table, [row for row in rows if known.get(_key(table, row), row) != row])
        on_rows(len(rows))


def drop_strangers(source: Session, target: Database, table: Table) -> int:
    """Drop rows of the target that the source does not have any more; how many."""
    key = list(table.primary_key.columns)
    with target.reading() as session:
        there = [tuple(row) for row in session.execute(select(*key))]
    dropped = 0
    for some in in_chunks(there, _KEYS_AT_ONCE):
        kept = {tuple(row) for row in source.execute(select(*key).where(tuple_(*key).in_(some)))}
        strange = [found for found in some if found not in kept]
        if strange:
            with target.writing() as session:
                session.execute(delete(table).where(tuple_(*key).in_(strange)))
            dropped += len(strange)
    return dropped


def set_sequence(session: Session, table: Table) -> None:
    """Have the next row that gets its id from PostgreSQL get one that is free."""
    column = table.autoincrement_column
    if column is None or session.get_bind().dialect.name != "postgresql":
        return
    names = {"table": table.name, "column": column.name}
    sequence = session.scalar(text("SELECT pg_get_serial_sequence(:table, :column)"), names)
    if sequence is not None:
        highest = session.scalar(select(func.max(column))) or 0
        session.execute(select(func.setval(sequence, highest + 1, False)))  # the next one is that


def _columns(table: Table) -> list[ColumnElement[Any]]:
    """Columns as they are stored: bodies stay packed."""
    return [
        type_coerce(column, LargeBinary).label(column.name) if isinstance(column.type, PackedJson) else column
        for column in table.columns
    ]


def _batches(source: Session, table: Table) -> Iterator[Sequence[Row]]:
    key = list(table.primary_key.columns)
    size = BODIES_AT_ONCE if "body" in table.columns else ROWS_AT_ONCE
    query = select(*_columns(table)).order_by(*key).limit(size)
    after = tuple_(*key) > tuple_(*[bindparam(f"after_{column.name}", type_=column.type) for column in key])
    rows = _rows(source, query, {})
    while rows:
        yield rows
        if len(rows) < size:
            return
        last = {f"after_{column.name}": rows[-1][column.name] for column in key}
        rows = _rows(source, query.where(after), last)


def _rows(session: Session, query: Any, parameters: dict[str, Any]) -> list[Row]:  # noqa: ANN401 # any query
    found = session.execute(query, parameters)
    names = list(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]


def _known(session: Session, table: Table, keys: Sequence[Key]) -> dict[Key, Row]:
    chosen = tuple_(*table.primary_key.columns).in_(keys)
    found = _rows(session, select(*_columns(table)).where(chosen), {})
    return {_key(table, row): row for row in found}


def _key(table: Table, row: Row) -> Key:
    return tuple(row[column.name] for column in table.primary_key.columns)


def _add(session: Session, table: Table, rows: Sequence[Row]) -> None:
    """Write rows whose keys are free."""
    if not rows:
        return
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        _stream(connection, table, rows)
    else:
        connection.execute(insert(table), rows)


def _replace(session: Session, table: Table, rows: Sequence[Row]) -> None:
    """Write rows in the place of those with the same keys."""
    if rows:
        session.execute(insert_or_replace(session, table), rows)


def _stream(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Write rows by COPY, each value as an insert would send it."""
    names = [column.name for column in table.columns]
    sent = [column.type.dialect_impl(connection.dialect).bind_processor(connection.dialect) for column in table.columns]
    columns = list(zip(names, sent, strict=True))
    quoted = connection.dialect.identifier_preparer.quote
    statement = f"COPY {quoted(table.name)} ({', '.join(map(quoted, names))}) FROM STDIN"
    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row([row[name] if as_sent is None else as_sent(row[name]) for name, as_sent in columns])
    except psycopg.Error as error:
        raise DBAPIError(statement, None, error) from error
