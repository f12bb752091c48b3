"""
Many rows of one table, written without what SQLAlchemy does anew for each of them.

For tables that an evaluation rewrites as a whole, replacing rows with packed bodies, which `batches` would have to
spell out as JSON for PostgreSQL: of the time that a row takes, two thirds were for gathering its
parameters by name, and for writing the same few times out again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Dialect, Insert, Table
from sqlalchemy.orm import Session

from fleetridge_server.store.columns import driver_writer
from fleetridge_server.store.upserts import Row, in_chunks


def write_rows(session: Session, table: Table, statement: Insert, rows: Sequence[Row]) -> None:
    """
    Execute an insert, which may replace, for each of some rows.

    Args:
        session: to write in.
        table: which has no defaults but those of the database.
        statement: on the table, without values.
        rows: all with the same columns.
    """
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
