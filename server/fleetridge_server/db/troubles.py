"""
Troubles of the database in words with a remedy, and the file of a SQLite database while it is open.

`trouble` recognises errors of drivers that waiting or an operator mends. `DataFile` knows whether the file is still
the one at its path and may be written: SQLite goes on with a file that was deleted or replaced, and all that is stored
there is lost.
"""

import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError


class DataFileError(RuntimeError):
    """The data file cannot be used as it should; the message names the remedy."""


@dataclass
class DataFile:
    """A data file that is, or will be, open."""

    path: Path
    _identity: tuple[int, int] | None = field(default=None, init=False)

    def note_opened(self) -> None:
        """Take the file that is at the path now for the one that is open, unless one is open already."""
        if self._identity is None:
            self._identity = self._found()

    def check_same(self) -> None:
        """
        Make sure that the open file is still the one at its path.

        Raises:
            DataFileError: it was deleted, moved or replaced.
        """
        if self._identity is not None and self._identity != self._found():
            raise DataFileError(
                f"the data file {self.path.name} was deleted, moved or replaced while it was open; put it back "
                "where it was, or restart the server to work with what is there now"
            )

    def check_writable(self) -> None:
        """
        Make sure that this process may write the file and, for its journals, the folder.

        Raises:
            DataFileError: it may not.
        """
        for path, what in ((self.path, "data file"), (self.path.parent, "folder of the data file")):
            if not os.access(path, os.W_OK):
                raise DataFileError(
                    f"the {what} {path.name} may only be read; make it writable for the user of the server"
                )

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino


class DatabaseTroubleError(RuntimeError):
    """The database could not be used by another process of this server; the message is what `trouble` said there."""


# What may be raised where the database is asked, all of it.
DATABASE_TROUBLES = (DBAPIError, PoolTimeoutError, DataFileError, DatabaseTroubleError)

_BUSY = "the database is busy or out of reach; nothing was stored, send the same again after Retry-After seconds"
_READ_ONLY = (
    "the database may only be read, nothing was stored; make the data file and its folder writable for the user of the "
    "server, or point DATABASE_URL at a database that takes writes"
)
_FORBIDDEN = (
    "the database forbids this to the server's user, nothing was stored; let that user own the tables, or grant "
    "it what the server asks for when it starts"
)
_DISK = (
    "the disk of the database cannot be written or read, nothing was stored; make room on it, see the limit of file "
    "sizes, and look for its errors in the log of the system"
)
_FULL = "the disk of the database is full, nothing was stored; make room on it"
_SLOW = "the database took too long over this; ask for less (a later since, a smaller limit), or later"

# SQLite's own words, which never changed; Python 3.10 does not give its codes.
_OF_SQLITE = {
    "attempt to write a readonly database": _READ_ONLY,
    "database or disk is full": _FULL,
    "disk I/O error": _DISK,
    "interrupted": _SLOW,
}
_OF_POSTGRES = {"25006": _READ_ONLY, "42501": _FORBIDDEN, "53100": _FULL, "58030": _DISK, "57014": _SLOW}


def trouble(error: Exception) -> str | None:
    """Why the database cannot be used just now; None where an error is our own fault and waiting would not mend it."""
    if isinstance(error, DataFileError | DatabaseTroubleError):
        return str(error)
    if isinstance(error, PoolTimeoutError):
        return _BUSY
    if not isinstance(error, DBAPIError):
        return None
    known = _known(error)
    if known is not None:
        return known
    is_out_of_reach = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return _BUSY if is_out_of_reach else None


def _known(error: DBAPIError) -> str | None:
    if isinstance(error.orig, sqlite3.Error):
        return _OF_SQLITE.get(str(error.orig))
    return _OF_POSTGRES.get(getattr(error.orig, "sqlstate", None) or "")
