"""A PostgreSQL of a test's own that dies and comes back; what it has committed, it keeps."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL

from support import postgres_keeper as keeper

# The server of all other tests forgets what it committed last when it dies; here that is what matters. The machine
# itself goes on, so that nothing has to reach the disk.
_REMEMBERING = "synchronous_commit=on"


class MortalPostgres:
    """
    A server on a folder.

    Attributes:
        url: of its database `postgres`, whose user may do everything.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.socket = folder / keeper.DATA_NAME / ".s.PGSQL.5432"
        self.url = URL.create(
            "postgresql+psycopg", username="postgres", database="postgres", query={"host": str(self.socket.parent)}
        )
        self.start()

    @property
    def owner(self) -> int:
        """User that it runs as."""
        return self.socket.parent.stat().st_uid

    def start(self) -> None:
        """Start it; after a crash it recovers first."""
        self._server = keeper.run(self._folder, _REMEMBERING)

    def crash(self) -> None:
        """End it at once, with all its connections, as `pg_ctl stop -m immediate` does."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()


@contextmanager
def mortal_postgres() -> Iterator[MortalPostgres]:
    """A server for the time of the block."""
    folder, lock = keeper.make_locked_folder()
    try:
        keeper.initialise(folder)
        server = MortalPostgres(folder)
        try:
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
