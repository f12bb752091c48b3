"""When tokens were last used: remembered here, written together once a minute, so that no request waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import final

import anyio
import anyio.to_thread
from anyio import CapacityLimiter

from fleetridge_server.store.database import Database
from fleetridge_server.store.tokens import note_uses
from fleetridge_server.store.trouble import DATABASE_TROUBLES

# Whoever asks when a token was last used thinks in days.
WRITTEN_EVERY_S = 60.0


@final
class Uses:
    """
    Last uses that are not written yet.

    Args:
        database: where to write them.
        writers: limits who may write at a time.
    """

    def __init__(self, database: Database, writers: CapacityLimiter) -> None:
        self._database = database
        self._writers = writers
        self._last: dict[int, datetime] = {}

    def note(self, token_id: int, at: datetime) -> None:
        """A token is used."""
        self._last[token_id] = at

    async def write(self) -> None:
        """Write what is not written; where the database does not take it, next time."""
        uses, self._last = self._last, {}
        try:
            if uses:
                await anyio.to_thread.run_sync(self._write, uses, limiter=self._writers)
        except DATABASE_TROUBLES:
            self._last = {**uses, **self._last}

    def _write(self, uses: dict[int, datetime]) -> None:
        with self._database.writing() as session:
            note_uses(session, uses)


@asynccontextmanager
async def writing_uses(uses: Uses, *, pause: Callable[[float], Awaitable[None]] = anyio.sleep) -> AsyncIterator[None]:
    """Write uses once in a while, and at the end."""

    async def keep_writing() -> None:
        while True:
            await pause(WRITTEN_EVERY_S)
            await uses.write()

    writing = asyncio.create_task(keep_writing())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await uses.write()
