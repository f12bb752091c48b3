"""The API's description for generators of requests: what it says, about a server of which the names are known."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from uuid import UUID

from sqlalchemy import delete

from fleetridge.report.model import SCHEMA_VERSION
from fleetridge_server.db.database import open_database
from fleetridge_server.db.tables import Document
from fleetridge_server.fleet.expected import ExpectedGpu
from support.app_client import AppClient
from support.describe_api import description
from support.evaluated import SLOW, SOUND, evaluate, expect, gpu_id, runs
from support.fleet import post
from support.reports import make_report

KEPT = "0198c0de-0000-7000-8000-00000000000a"
DROPPED = "0198c0de-0000-7000-8000-00000000000b"
MARK = 1

# What a parameter may name on the server that `fill` makes, beside what is nowhere.
NAMES: Mapping[str, Sequence[Any]] = {
    "/devices/{name}": ("NVIDIA H200", "h200"),
    "/gpus/{gpu_id}": (gpu_id("n01", 7), gpu_id("n01", 0)),
    "/nodes/{name}": ("n01", "n02", "n09"),
    "/reports/{report_id}": (KEPT, DROPPED),
    "/marks/{mark_id}": (MARK,),
}
FILTERS: Mapping[str, Sequence[Any]] = {
    "cluster": ("east", "west", "simulated"),
    "node": ("n01", "n02"),
    "rack": ("r1",),
    "dtype": ("bfloat16", "float32"),
    "regime": ("burst",),
    "driver": ("580.159.04",),
    "device": ("h200",),
}


def described() -> dict[str, Any]:
    """
    The description of a server without tokens.

    Reports are of a version that is taken, since the description says of it only that it is text.
    """
    found: dict[str, Any] = json.loads(description())
    for operations in found["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    found["components"]["schemas"]["Report"]["properties"]["schema_version"]["enum"] = [SCHEMA_VERSION]
    return found


def described_with_names() -> dict[str, Any]:
    """The same of a server that `fill` has filled: names in addresses and filters are those that it has."""
    found = copy.deepcopy(described())
    for path, operations in found["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                names = _names(path) if parameter["in"] == "path" else FILTERS.get(parameter["name"])
                if names is not None:
                    parameter["schema"] = _one_of(parameter["schema"], names)
    return found


def fill(client: AppClient, database_url: str) -> None:
    """Give a server two clusters, a slow gpu, alerts, a mark, an inventory and a report whose document was dropped."""
    post(client, runs("n01", [SOUND] * 7 + [SLOW]))
    post(client, runs("n02", [SOUND] * 8, environment__driver="590.10"))
    post(client, runs("n01", [SOUND], node__cluster="west", gpu__uuid="GPU-west"))
    post(client, [make_report(report_id=report_id) for report_id in (KEPT, DROPPED)])
    expect(database_url, ExpectedGpu("n09", "GPU-never"))
    evaluate(database_url)
    mark = {"kind": "accepted", "reason": "capped", "author": "ops", "cluster": "east", "node": "n01"}
    assert client.post("/marks", json=mark).json()["id"] == MARK
    with closing(open_database(database_url)) as database, database.writing() as session:
        session.execute(delete(Document).where(Document.report_id == UUID(DROPPED)))


def _names(path: str) -> Sequence[Any] | None:
    return next((names for start, names in NAMES.items() if path.startswith(start)), None)


def _one_of(schema: dict[str, Any], names: Sequence[Any]) -> dict[str, Any]:
    """Schema of a parameter, or of the text in it where it may have none, that is one of some values."""
    if "anyOf" not in schema:
        return {**schema, "enum": list(names)}
    kinds = [{"enum": list(names)} if kind == {"type": "string"} else kind for kind in schema["anyOf"]]
    return {**schema, "anyOf": kinds}
