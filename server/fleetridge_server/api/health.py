"""Health, for those who start, restart and route."""

from __future__ import annotations

import anyio
from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.problems import Problem, unavailable
from fleetridge_server.store.data_file import DataFileError
from fleetridge_server.store.database import Database, ReadOnlyError
from fleetridge_server.store.schema import SchemaError, check_schema

router = APIRouter(tags=["health"])

_NOT_READY = "The server is not ready"


class Health(BaseModel):
    """State of the server."""

    status: str


@router.get("/livez")
async def livez() -> Health:
    """Whether the process answers at all; touches nothing else, so that a slow database restarts no server."""
    return Health(status="alive")


@router.get("/readyz", responses={503: {"model": Problem, "description": "Not ready, with the remedy."}})
async def readyz(request: Request, database: OpenDatabase) -> Health:
    """Whether the database answers, has this server's schema and may be written, and the server is not about to end."""
    if request.app.state.is_ending:
        raise unavailable("ending", _NOT_READY, "the server is about to end; send to another one, or to this one later")
    await anyio.to_thread.run_sync(_check, database, limiter=request.app.state.health)
    return Health(status="ready")


def _check(database: Database) -> None:
    try:
        check_schema(database.engine)
        database.check_writable()
    except SchemaError as error:
        raise unavailable("schema_mismatch", _NOT_READY, str(error)) from error
    except (DataFileError, ReadOnlyError) as error:
        raise unavailable("database_unavailable", _NOT_READY, str(error)) from error
    except SQLAlchemyError as error:
        detail = "the database does not answer; see whether it runs and whether DATABASE_URL is right"
        raise unavailable("database_unavailable", _NOT_READY, detail) from error
