"""What stands between the server and its database, in words with a remedy."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fleetridge_server.store.data_file import DataFileError


class ToldTroubleError(RuntimeError):
    """The database could not be used by another process of this server; the message is what `trouble` said there."""


# What may be raised where the database is asked, all of it.
DATABASE_TROUBLES = (DBAPIError, PoolTimeoutError, DataFileError, ToldTroubleError)

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
    if isinstance(error, DataFileError | ToldTroubleError):
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
