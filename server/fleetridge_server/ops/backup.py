"""
A backup of SQLite's file while servers work with it: one state of the data, checked before it gets its name.

Readers and writers go on meanwhile. PostgreSQL has `pg_dump` for this.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleetridge_server.db.database import parsed_url
from fleetridge_server.db.schema import refuse_unreleased

# A hundredth of a second of copying between two looks at how far it is.
_PAGES_AT_ONCE = 2048

# A writer holds the file for a moment when it starts; nothing else makes a reader wait.
_BUSY_S = 10.0


class BackupError(RuntimeError):
    """There is no backup; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made and checked: its size, and the rows of each table."""

    path: Path
    size_bytes: int
    rows: dict[str, int]


def back_up(
    database_url: str, path: Path, *, on_progress: Callable[[int, int], None] = lambda _done, _pages: None
) -> Backup:
    """
    Write the state of a database, as it is now, to a file of its own, which a server can be started on.

    Args:
        database_url: of SQLite.
        path: of the backup; nothing may be there.
        on_progress: called with the number of pages copied, and of all.

    Raises:
        BackupError: there is something at the path, no data file, or the copy is not what it should be.
        DatabaseUrlError: the address cannot be used.
        OSError: the file cannot be written.
        SchemaError: nobody could read it, as it was made before version 0.1.0.
    """
    source = _data_file(database_url)
    if os.path.lexists(path):
        raise BackupError(f"{path} is there already, and a backup replaces nothing; choose another name")
    with _unfinished(path) as unfinished:
        try:
            rows = _copied(source, unfinished, on_progress)
        except sqlite3.Error as error:
            raise BackupError(f"{source} could not be copied: {error}; nothing was kept of it") from error
        size_bytes = unfinished.stat().st_size
        _name(unfinished, path)
    return Backup(path, size_bytes, rows)


def _data_file(database_url: str) -> Path:
    url = parsed_url(database_url)
    if url.get_backend_name() != "sqlite":
        raise BackupError(
            "this is for SQLite; back PostgreSQL up with `pg_dump --format=custom --file=FILE URL`, "
            "and restore with `pg_restore --dbname=URL FILE` into an empty database"
        )
    path = Path(url.database or "").absolute()
    if not path.is_file():
        raise BackupError(f"there is no data file {path}; see whether DATABASE_URL is right")
    return path


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A file beside a path, for its owner alone, that is gone after the block unless it got another name."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".unfinished", dir=path.absolute().parent)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        for left in Path(name).parent.glob(f"{Path(name).name}*"):  # with its journals
            left.unlink()


def _copied(source: Path, target: Path, on_progress: Callable[[int, int], None]) -> dict[str, int]:
    """Copy one state of a file into another, and check the copy; the rows of its tables."""
    with closing(_opened(source)) as read, closing(_opened(target)) as written:
        read.execute("BEGIN")
        rows = _counts(read)  # from here on the source shows one state, so that no writer makes the copy start anew
        refuse_unreleased(rows)
        read.backup(
            written, pages=_PAGES_AT_ONCE, progress=lambda _status, left, pages: on_progress(pages - left, pages)
        )
        read.execute("ROLLBACK")
        _check(written, rows)
        written.execute("PRAGMA journal_mode = DELETE")  # all in one file; a server sets its own mode again
    return rows


def _opened(path: Path) -> sqlite3.Connection:
    # Reading it may have to take up what a killed server left in its journal, so that it is opened for both.
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_S, isolation_level=None)


def _check(copy: sqlite3.Connection, rows: dict[str, int]) -> None:
    found = [line for (line,) in copy.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        raise BackupError(f"the copy is damaged: {found[0]}; the data file may be, too; `PRAGMA integrity_check` tells")
    if _counts(copy) != rows:
        raise BackupError("the copy has other rows than the data file had; nothing was kept of it, try again")


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    query = 'SELECT count(*) FROM "{}"'
    return {name: connection.execute(query.format(name)).fetchone()[0] for (name,) in tables.fetchall()}


def _name(unfinished: Path, path: Path) -> None:
    """Give a file its name for good, unless somebody else took it meanwhile."""
    _to_disk(unfinished)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise BackupError(f"{path} was made by somebody else meanwhile; choose another name") from None
    unfinished.replace(path)
    _to_disk(path.absolute().parent)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
