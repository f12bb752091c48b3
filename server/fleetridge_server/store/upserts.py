"""Rows that may be there already: locked where found, inserted where missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

Row = dict[str, Any]

# Some hundredths of a second of writing, and far below the number of parameters that either database takes.
CHUNK_ROWS = 500

_Item = TypeVar("_Item")


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
    if session.get_bind().dialect.name == "postgresql":
        statement = postgresql.insert(table)
        replaced = {column.name: column for column in statement.excluded if column.name not in key}
        return statement.on_conflict_do_update(index_elements=sorted(key), set_=replaced)
    into = sqlite.insert(table)
    replaced = {column.name: column for column in into.excluded if column.name not in key}
    return into.on_conflict_do_update(index_elements=sorted(key), set_=replaced)


def in_chunks(rows: Sequence[_Item], size: int = CHUNK_ROWS) -> Iterator[Sequence[_Item]]:
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
