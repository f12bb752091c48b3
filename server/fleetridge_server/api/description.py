"""The description of the API: as FastAPI makes it from the routes, with every error in its one shape."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from fleetridge_server.access.permission import OPEN_PATHS
from fleetridge_server.problems import MEDIA_TYPE

router = APIRouter(tags=["health"])

_FIRST_ERROR = 400
_PROBLEM = {"$ref": "#/components/schemas/Problem"}

_SCHEMES = {"token": {"type": "http", "scheme": "bearer", "description": "Where the server has tokens."}}

# What the guard answers, in front of every route that is not open.
_OF_GUARD = {
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
    for status, meaning in _OF_GUARD.items():
        operation["responses"].setdefault(status, {"description": meaning})
    operation["responses"] = dict(sorted(operation["responses"].items()))
