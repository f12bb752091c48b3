"""
One evaluator at a time, however many servers share a database.

On PostgreSQL the lock belongs to a connection and ends with it, so that another server takes over as soon as its
holder is gone. On SQLite one server has the file to itself (`store.file_lock`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from fleetridge_server.store.database import Database

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
