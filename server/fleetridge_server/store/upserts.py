"""Rows that may be there already: locked where found, inserted where missing, written back where changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, bindparam, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

Row = dict[str, Any]


def insert_ignoring(session: Session, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Insert that leaves rows alone whose key is taken, as either database spells it."""
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing()


def locked_rows(session: Session, table: Table, chosen: ColumnElement[bool]) -> list[Row]:
    """
    Rows of a table, which nobody else changes until the transaction ends.

    They are locked in the order of their key, so that two transactions do not wait for each other in a circle.
    """
    query = table.select().where(chosen).order_by(*table.primary_key.columns).with_for_update()
    return [dict(row) for row in session.execute(query).mappings()]


def write_back(session: Session, table: Table, rows: Sequence[Row]) -> None:
    """Write rows back by their column `id`."""
    if rows:
        parameters = [{"key": row["id"]} | {name: value for name, value in row.items() if name != "id"} for row in rows]
        session.execute(update(table).where(table.c.id == bindparam("key")), parameters)
