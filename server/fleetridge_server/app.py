"""The web application: what is opened when it starts, and which routes it has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from fastapi import FastAPI
from sqlalchemy.exc import DBAPIError

import fleetridge
from fleetridge_server.api import devices, gpus, health, nodes, reports
from fleetridge_server.api.description import install_description, operation_id
from fleetridge_server.api.head import HeadAsGet
from fleetridge_server.ingest.body import WaitingBodies
from fleetridge_server.problems import install_handlers
from fleetridge_server.settings import Settings
from fleetridge_server.store.data_file import DataFileError
from fleetridge_server.store.database import HEALTH_THREADS, READ_THREADS, WRITE_THREADS, Database, open_database
from fleetridge_server.store.schema import check_schema

_DESCRIPTION = "Keeps the rooflines of a fleet's GPUs and says which one is slower than its peers."


def create_app(settings: Settings) -> FastAPI:
    """
    Make the application.

    Raises, when it starts:
        DatabaseUrlError: the database's address cannot be used.
        SchemaError: the database does not have this server's schema.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        database = open_database(settings.database_url)
        try:
            await anyio.to_thread.run_sync(check_schema, database.engine)
            await anyio.to_thread.run_sync(_analyze, database)
            anyio.to_thread.current_default_thread_limiter().total_tokens = READ_THREADS
            app.state.database = database
            app.state.health = anyio.CapacityLimiter(HEALTH_THREADS)
            app.state.writers = anyio.CapacityLimiter(WRITE_THREADS)
            app.state.waiting_bodies = WaitingBodies()
            yield
            await anyio.to_thread.run_sync(_analyze, database)
        finally:
            database.close()

    app = FastAPI(
        title="fleetridge",
        description=_DESCRIPTION,
        version=fleetridge.__version__,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from another host, which a closed cluster cannot reach
        redoc_url=None,
        redirect_slashes=False,  # a slash at the end can be part of a name
        generate_unique_id_function=operation_id,
        separate_input_output_schemas=False,  # a report is the same on its way in and out
    )
    app.add_middleware(HeadAsGet)
    install_handlers(app)
    for room in (health, reports, devices, gpus, nodes):
        app.include_router(room.router)
    install_description(app)
    return app


def _analyze(database: Database) -> None:
    """Help SQLite plan its queries, which nobody else does; a file that takes no writes is left as it is."""
    if database.data_file is not None:
        with suppress(DBAPIError, DataFileError):
            database.analyze()
