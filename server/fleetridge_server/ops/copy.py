"""
Copy of a whole database into another one, from SQLite to PostgreSQL or back: resumable, and counted at the end.

The source is read in one state. The target has a table from the first moment to the last that says where its rows come
from: a server does not start on half a copy, and whoever goes on with it must come from the same source.

Tables are copied some rows at a time in the order of the key. A row that is there already, the same in every column, is
not written again, so that an interrupted copy goes on at the cost of reading. New rows go in as a stream (`COPY`) on
PostgreSQL, by one statement for all on SQLite.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    select,
    text,
    tuple_,
    type_coerce,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from fleetridge_server.db.column_types import PackedJson
from fleetridge_server.db.database import Database, open_database, parsed_url, shown_url
from fleetridge_server.db.document_months import make_months, month_of
from fleetridge_server.db.locks import sole_server
from fleetridge_server.db.rows import Row, in_chunks, insert_or_replace
from fleetridge_server.db.schema import (
    METADATA,
    REVISION_TABLE,
    UNFINISHED_COPY,
    check_revision,
    check_schema,
    current_revision,
    is_month,
    migrate,
)
from fleetridge_server.db.tables import Document

# A transaction of a few hundredths of a second; packed JSON weighs some kilobytes a row.
ROWS_AT_ONCE = 1000
BODIES_AT_ONCE = 200

# Keys of one look-up: two or three parameters each, below the 32,766 that SQLite takes.
_KEYS_AT_ONCE = 1000

PrimaryKey = tuple[Any, ...]


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
        on_rows: called after each batch with the number of rows so far.
    """
    with target.reading() as session:
        is_new = session.execute(select(*table.primary_key.columns).limit(1)).first() is None
    done = 0
    for rows in _batches(source, table):
        if table is Document.__table__:
            make_months(target.engine, {month_of(row["received_at"]) for row in rows})
        with target.writing() as session:
            known = {} if is_new else _known(session, table, [_key(table, row) for row in rows])
            _add(session, table, [row for row in rows if _key(table, row) not in known])
            changed = [row for row in rows if known.get(_key(table, row), row) != row]
            if changed:
                session.execute(insert_or_replace(session, table), changed)
        done += len(rows)
        on_rows(done)


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
    """Columns as they are stored: packed JSON stays packed."""
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


def _known(session: Session, table: Table, keys: Sequence[PrimaryKey]) -> dict[PrimaryKey, Row]:
    chosen = tuple_(*table.primary_key.columns).in_(keys)
    found = _rows(session, select(*_columns(table)).where(chosen), {})
    return {_key(table, row): row for row in found}


def _key(table: Table, row: Row) -> PrimaryKey:
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
"""Called with a table, how many of its rows are copied, and how many there are."""


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
    if _name_of(source_url) == _name_of(target_url):
        raise CopyError("source and target are the same database; name another one with --to")
    with ExitStack() as held:
        for url in (source_url, target_url):
            held.enter_context(sole_server(url))
        source = held.enter_context(_opened(source_url))
        check_schema(source.engine)
        _refuse_unknown_tables(source.engine)
        target = held.enter_context(_prepared(target_url))
        held.enter_context(_only_copy(target))
        _begin(target, _name_of(source_url))
        snapshot = held.enter_context(source.reading())
        copied = _copy_tables(snapshot, target, on_progress)
        _end(target, copied)
    return copied


def _name_of(url: str) -> str:
    """What a database is called, without a password."""
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
    found = {name for name in inspect(engine).get_table_names() if not is_month(name)}
    unknown = found - METADATA.tables.keys() - {REVISION_TABLE}
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

        def on_rows(done: int, name: str = table.name, total: int = total) -> None:
            on_progress(name, done, total)

        on_rows(0)
        copy_rows(source, target, table, on_rows)
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
        rows = ", ".join(f"{table.name} has {table.target_rows} of {table.source_rows} rows" for table in wrong)
        raise CopyError(f"the target is not the same as the source: {rows}; is anything else writing there? Copy again")
    with target.writing() as session:
        for table in METADATA.sorted_tables:
            set_sequence(session, table)
        _NOTE.drop(session.connection())
    target.analyze()
