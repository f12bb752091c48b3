"""
What routes ask of the app.

A route that reads is a plain function, which runs in a thread, and opens its own transaction:

    @router.get("/devices")
    def devices(database: OpenDatabase) -> …:
        with database.reading() as session:
            …
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from fleetridge_server.store.database import Database


async def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


OpenDatabase = Annotated[Database, Depends(_database)]
"""The app's database, as a route's argument."""
