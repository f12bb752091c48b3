"""The service itself: `/livez`, `/readyz`, `/metrics` and `/openapi.json`."""

from datetime import datetime, timezone
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from fleetridge_server.auth.permissions import OPEN_PATHS
from fleetridge_server.db.database import Database, ReadOnlyError
from fleetridge_server.db.schema import SchemaError, check_schema
from fleetridge_server.db.troubles import DataFileError
from fleetridge_server.http.parameters import OpenDatabase
from fleetridge_server.problems import MEDIA_TYPE, Problem, unavailable
from fleetridge_server.responses.metrics import MOST_GPUS, VerdictCollector, read_metrics
from fleetridge_server.telemetry.metrics import OwnMetrics

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


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "In Prometheus' text format."},
        503: {"model": Problem, "description": "The database does not answer just now; scrape again later."},
    },
)
def get_metrics(request: Request, database: OpenDatabase) -> Response:
    """
    Counts of gpus by verdict for each device; rates, deviation and age of the gpus that are not ok; the server's own.

    Made-up gpus never show. At most 5,000 gpus have series of their own; how many are left out is a metric, too.
    """
    every_gpu: bool = request.app.state.metrics_of_every_gpu
    with database.reading() as session:
        read = read_metrics(session, every_gpu=every_gpu, most=MOST_GPUS)
    registry = CollectorRegistry()
    registry.register(VerdictCollector(read, datetime.now(timezone.utc)))
    own: OwnMetrics = request.app.state.own_metrics
    families = generate_latest(registry) + generate_latest(own.registry)
    return Response(families, media_type=CONTENT_TYPE_LATEST)


_FIRST_ERROR = 400
_PROBLEM = {"$ref": "#/components/schemas/Problem"}

_SCHEMES = {"token": {"type": "http", "scheme": "bearer", "description": "Where the server has tokens."}}

# What authentication answers, in front of every route that is not open.
_OF_AUTHENTICATION = {
    "400": "More than one Authorization header, or a token in the address.",
    "401": "No token, or one that does not hold.",
    "403": "The token has not the scope, or is for another place.",
    "429": "Too many calls; send the same again after Retry-After seconds.",
}

# FastAPI describes a shape of its own for requests that do not validate; `problems` answers them in ours.
_NOT_OURS = ("HTTPValidationError", "ValidationError")


def operation_id(route: APIRoute) -> str:
    """Name of a route for generated clients: that of its function, which says verb and noun."""
    return route.name


@router.get("/openapi.json", include_in_schema=False)
def get_description(request: Request) -> JSONResponse:
    """OpenAPI 3.1 description of all routes."""
    app: FastAPI = request.app
    return JSONResponse(app.openapi())


def install_description(app: FastAPI) -> None:
    """Let an app describe itself so."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _description(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign] # the way that FastAPI documents


def _description(app: FastAPI) -> dict[str, Any]:
    description = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        separate_input_output_schemas=app.separate_input_output_schemas,
    )
    for path, operations in description["paths"].items():
        for operation in operations.values():
            if path not in OPEN_PATHS:
                _ask_for_token(operation)
            for status, answer in operation["responses"].items():
                if int(status) >= _FIRST_ERROR:
                    answer["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
    description["components"]["securitySchemes"] = _SCHEMES
    for name in _NOT_OURS:
        description["components"]["schemas"].pop(name, None)
    return description


def _ask_for_token(operation: dict[str, Any]) -> None:
    operation["security"] = [{"token": []}]
    for status, meaning in _OF_AUTHENTICATION.items():
        operation["responses"].setdefault(status, {"description": meaning})
    operation["responses"] = dict(sorted(operation["responses"].items()))
