"""
Exclusive roles of a process: the only server of a SQLite file, the only evaluator of a database.

A SQLite file is served by one server, which holds a lock file beside it (`sole_server`). Of the servers that share a
PostgreSQL database one evaluates (`Leadership`): its advisory lock belongs to a connection and ends with it, so that
another server takes over as soon as its holder is gone.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from fleetridge_server.db.database import Database, parsed_url

_SUFFIX = "-server"


class ServedAlreadyError(RuntimeError):
    """Another server runs on the same SQLite file; the message says what to do."""


@contextmanager
def sole_server(database_url: str) -> Iterator[None]:
    """
    Be the only server of a SQLite file during the block; PostgreSQL takes any number of them.

    The lock lies on a file beside the data and ends with the process, however it ends.

    Raises:
        DatabaseUrlError: the address cannot be used.
        ServedAlreadyError: another process is.
        OSError: the file beside the data cannot be made.
    """
    url = parsed_url(database_url)
    if url.get_backend_name() != "sqlite":
        yield
        return
    data = Path(url.database or "").resolve()
    with data.with_name(data.name + _SUFFIX).open("w", encoding="utf-8") as side_file:
        try:
            fcntl.flock(side_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServedAlreadyError(
                f"another fleetridge-server serves {data} already; stop that one; PostgreSQL takes several"
            ) from None
        yield


# Any number that nothing else locks in this database: the word "evaluate", which fits 64 bits with a sign.
_LOCK = int.from_bytes(b"evaluate", "big")


@dataclass
class Leadership:
    """Whether this process is the one that evaluates."""

    database: Database
    _connection: Connection | None = field(default=None, init=False)
    _leads: bool = field(default=False, init=False)

    def lead(self) -> bool:
        """
        Become the one, or make sure of still being it.

        Raises:
            sqlalchemy.exc.DBAPIError: the database cannot be reached; whoever led does not any more.
        """
        if self.database.data_file is not None:
            self._leads = True
            return True
        try:
            connection = self._open()
            if not self._leads:
                self._leads = connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}) is True
            else:
                connection.scalar(text("SELECT 1"))  # fails where the connection, and with it the lock, is lost
        except DBAPIError:
            self.resign()
            raise
        if not self._leads:
            self.resign()
        return self._leads

    def resign(self) -> None:
        """Let another one lead."""
        connection, self._connection, self._leads = self._connection, None, False
        if connection is not None:
            connection.invalidate()  # a lock stays with a connection that goes back to the pool
            connection.close()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection
