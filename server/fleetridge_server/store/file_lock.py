"""One server per SQLite file, however often it is started by mistake."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetridge_server.store.database import parsed_url

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
