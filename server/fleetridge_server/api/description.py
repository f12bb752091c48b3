"""The description of the API: as FastAPI makes it from the routes, with every error in its one shape."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from fleetridge_server.problems import MEDIA_TYPE

_FIRST_ERROR = 400
_PROBLEM = {"$ref": "#/components/schemas/Problem"}

# FastAPI describes a shape of its own for requests that do not validate; `problems` answers them in ours.
_NOT_OURS = ("HTTPValidationError", "ValidationError")


def operation_id(route: APIRoute) -> str:
    """Name of a route for generated clients: that of its function, which says verb and noun."""
    return route.name


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
    for path in description["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                if int(status) >= _FIRST_ERROR:
                    answer["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
    for name in _NOT_OURS:
        description["components"]["schemas"].pop(name, None)
    return description
