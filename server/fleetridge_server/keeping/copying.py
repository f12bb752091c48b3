"""
A whole database into another one, from SQLite to PostgreSQL or back: resumable, and counted at the end.

The source is read in one state. The target has a table from the first moment to the last that says where its rows come
from: a server does not start on half a copy, and whoever goes on with it must come from the same source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Engine, MetaData, Table, Text, inspect, select, text
from sqlalchemy.orm import Session

from fleetridge_server.store.all_tables import METADATA, REVISION_TABLE, is_month
from fleetridge_server.store.database import Database, open_database, parsed_url, shown_url
from fleetridge_server.store.file_lock import sole_server
from fleetridge_server.store.schema import UNFINISHED_COPY, check_revision, check_schema, current_revision, migrate
from fleetridge_server.store.table_copy import copy_rows, count_rows, drop_strangers, set_sequence

# Any number that nothing else locks in the target: the word "copy".
_COPY_LOCK = int.from_bytes(b"copy", "big")

_NOTE = Table(UNFINISHED_COPY, MetaData(), Column("source", Text, nullable=False))


class CopyError(RuntimeError):
    """The copy was not begun, or is not whole; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table, and the rows that it has in the source and in the target."""

    name: str
    source_rows: int
    target_rows: int


OnProgress = Callable[[str, int, int], None]
"""Is told a table, how many of its rows are copied, and how many there are."""


def copy_database(source_url: str, target_url: str, on_progress: OnProgress) -> list[CopiedTable]:
    """
    Copy everything into an empty database, or go on with a copy from the same source that was interrupted.

    Args:
        source_url: has this server's schema; of SQLite, no server may run on it. On PostgreSQL none should: what is
            stored after the start is not copied.
        target_url: without tables, or with this server's schema and no rows of its own.
        on_progress: see there.

    Returns:
        Each table with its rows, the same on both sides.

    Raises:
        CopyError: the target is not fit for it, or has other rows than the source in the end.
        DatabaseUrlError: an address cannot be used.
        SchemaError: a database has another schema than this server.
        ServedAlreadyError: a server runs on the source or the target.
        sqlalchemy.exc.DBAPIError: a database is busy or out of reach; the same call goes on.
    """
    if _place(source_url) == _place(target_url):
        raise CopyError("source and target are the same database; name another one with --to")
    with ExitStack() as held:
        for url in (source_url, target_url):
            held.enter_context(sole_server(url))
        source = held.enter_context(_opened(source_url))
        check_schema(source.engine)
        _refuse_unknown_tables(source.engine)
        target = held.enter_context(_prepared(target_url))
        held.enter_context(_only_copy(target))
        _begin(target, _place(source_url))
        snapshot = held.enter_context(source.reading())
        copied = _copy_tables(snapshot, target, on_progress)
        _end(target, copied)
    return copied


def _place(url: str) -> str:
    """A database by what it is called, without a password."""
    parsed = parsed_url(url)
    if parsed.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(parsed.database or '').resolve()}"
    return shown_url(url)


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = open_database(url, statement_timeout_ms=0)  # counting a large table takes its time
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _prepared(url: str) -> Iterator[Database]:
    """The target, with this server's schema."""
    with _opened(url) as database:
        if current_revision(database.engine) is None:
            if inspect(database.engine).get_table_names():
                raise CopyError(f"{shown_url(url)} has tables of something else; name an empty database with --to")
            migrate(url)
        check_revision(database.engine)
        yield database


@contextmanager
def _only_copy(target: Database) -> Iterator[None]:
    """Keep a second copy from the same target; SQLite's is held as by a server."""
    if target.data_file is not None:
        yield
        return
    with target.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        try:
            if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _COPY_LOCK}):
                raise CopyError("another copy into this database is under way; wait for it")
            yield
        finally:
            connection.invalidate()  # the lock ends with it, instead of going back to the pool


def _refuse_unknown_tables(engine: Engine) -> None:
    known = METADATA.tables.keys() | {REVISION_TABLE}
    unknown = {name for name in inspect(engine).get_table_names() if not is_month(name)} - known
    if unknown:
        raise CopyError(f"fleetridge does not know the tables {', '.join(sorted(unknown))}; move or drop them first")


def _begin(target: Database, source: str) -> None:
    """Note where the rows of the target come from, unless that stands there already."""
    with target.writing() as session:
        if inspect(session.connection()).has_table(UNFINISHED_COPY):
            noted = session.scalar(select(_NOTE.c.source))
            if noted != source:
                raise CopyError(f"the target is half a copy of {noted}; copy that one, or name an empty database")
            return
        filled = [table.name for table in METADATA.sorted_tables if session.execute(select(table).limit(1)).first()]
        if filled:
            raise CopyError(f"the target has rows of its own in {', '.join(filled)}; name an empty database with --to")
        _NOTE.create(session.connection())
        session.execute(_NOTE.insert().values(source=source))


def _copy_tables(source: Session, target: Database, on_progress: OnProgress) -> list[CopiedTable]:
    copied: list[CopiedTable] = []
    for table in METADATA.sorted_tables:  # what is referred to comes first
        total = count_rows(source, table)
        done = 0
        on_progress(table.name, 0, total)

        def tell(rows: int, table: Table = table, total: int = total) -> None:
            nonlocal done
            done += rows
            on_progress(table.name, done, total)

        copy_rows(source, target, table, tell)
        if _count(target, table) != total:
            drop_strangers(source, target, table)  # of a source that has changed since the copy was interrupted
        copied.append(CopiedTable(table.name, total, _count(target, table)))
    return copied


def _count(database: Database, table: Table) -> int:
    with database.reading() as session:
        return count_rows(session, table)


def _end(target: Database, copied: list[CopiedTable]) -> None:
    wrong = [table for table in copied if table.source_rows != table.target_rows]
    if wrong:
        told = ", ".join(f"{table.name} has {table.target_rows} of {table.source_rows} rows" for table in wrong)
        raise CopyError(f"the target is not the same as the source: {told}; is anything else writing there? Copy again")
    with target.writing() as session:
        for table in METADATA.sorted_tables:
            set_sequence(session, table)
        _NOTE.drop(session.connection())
    target.analyze()
