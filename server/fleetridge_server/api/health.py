"""Health, for those who start, restart and route."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.problems import Problem, unavailable
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
def readyz(database: OpenDatabase) -> Health:
    """Whether the database answers and has this server's schema."""
    try:
        check_schema(database.engine)
    except SchemaError as error:
        raise unavailable("schema_mismatch", _NOT_READY, str(error)) from error
    except SQLAlchemyError as error:
        detail = "the database does not answer; see whether it runs and whether DATABASE_URL is right"
        raise unavailable("database_unavailable", _NOT_READY, detail) from error
    return Health(status="ready")
