"""
Fresh databases for tests, on SQLite and on PostgreSQL: empty, or with the schema at its newest revision.

The migrations run once per kind and session, on a template; a migrated database is a copy of it, since copying takes
a few hundredths of a second.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from support.times import NOW

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

FILE_COPY_SINCE = (
    150_000  # PostgreSQL 15 learnt to choose how CREATE DATABASE copies; by file is twice as fast for small ones
)


class Databases(Protocol):
    """Makes databases of one kind and removes them."""

    def create(self, *, migrated: bool) -> str:
        """URL of a new database, without a table or with the newest schema and no row."""

    def drop(self, url: str) -> None:
        """Remove a database that `create` made, whoever is still connected."""


class SqliteDatabases:
    """SQLite files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template: Path | None = None

    def create(self, *, migrated: bool) -> str:
        """URL of a new file; an empty one is not there yet, as on a user's first start."""
        path = self._new_path()
        if migrated:
            with (
                closing(sqlite3.connect(self._migrated_template())) as source,
                closing(sqlite3.connect(path)) as target,
            ):
                source.backup(target)
        return _sqlite_url(path)

    def drop(self, url: str) -> None:
        """Remove the file with its journals."""
        name = make_url(url).database or ""
        for path in self._folder.glob(f"{name.rpartition('/')[2]}*"):
            path.unlink(missing_ok=True)  # a server that was killed may leave a process that is still closing it

    def _migrated_template(self) -> Path:
        if self._template is None:
            self._template = self._new_path()
            _migrate(_sqlite_url(self._template))
        return self._template

    def _new_path(self) -> Path:
        return self._folder / f"{uuid4().hex}.db"


class PostgresDatabases:
    """Databases on one PostgreSQL server."""

    def __init__(self, server_url: URL) -> None:
        """`server_url` names a database to connect to while others are created and dropped; its user needs CREATEDB."""
        self._url = server_url
        self._template: str | None = None

    def create(self, *, migrated: bool) -> str:
        """URL of a new database with a name of its own, so that runs can share a server."""
        return self._address(self._copy(self._migrated_template() if migrated else "template0"))

    def drop(self, url: str) -> None:
        """Drop the database and end what is connected to it."""
        self._drop(make_url(url).database or "")

    def close(self) -> None:
        """Drop the template; what `create` made is the caller's to drop."""
        if self._template is not None:
            self._drop(self._template)
            self._template = None

    def _migrated_template(self) -> str:
        if self._template is None:
            name = self._copy("template0")
            try:
                _migrate(self._address(name))
                _make_month(self._address(name), NOW)
            except BaseException:
                self._drop(name)
                raise
            self._template = name
        return self._template

    def _copy(self, template: str) -> str:
        name = f"fleetridge_test_{uuid4().hex}"
        with closing(self._connect()) as connection:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
            if connection.info.server_version >= FILE_COPY_SINCE:
                statement += sql.SQL(" STRATEGY file_copy")
            connection.execute(statement)
        return name

    def _drop(self, name: str) -> None:
        with closing(self._connect()) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        plain = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        return psycopg.connect(plain, autocommit=True)

    def _address(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)


def _sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def _migrate(url: str) -> None:
    from fleetridge_server.db.schema import migrate  # noqa: PLC0415 # tests without a database need no server

    migrate(url)


def _make_month(url: str, time: datetime) -> None:
    """Reports of tests arrive in a month of their own, whenever the tests run; a server makes months as they begin."""
    from fleetridge_server.db.database import create_database_engine  # noqa: PLC0415 # as above
    from fleetridge_server.db.document_months import make_months, month_of

    engine = create_database_engine(url)
    make_months(engine, {month_of(time)})
    engine.dispose()
