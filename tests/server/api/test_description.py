"""The description of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.app_client import AppClient
from support.describe_api import RENEW, SNAPSHOT, description
from support.fleet import fleet, post

DESCRIBED: dict[str, Any] = json.loads(description())
OPERATIONS = [
    pytest.param(operation, id=f"{method} {path}")
    for path, operations in DESCRIBED["paths"].items()
    for method, operation in operations.items()
]


def test_the_description_is_the_frozen_one() -> None:
    """A change of the API is seen by whoever reviews it."""
    assert description() == SNAPSHOT.read_text(encoding="utf-8"), (
        f"the API's description changed; if that is meant, run `{RENEW}` and read the difference"
    )


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_error_has_the_one_shape(operation: dict[str, Any]) -> None:
    """Problem details, also for parameters that do not validate."""
    for status, answer in operation["responses"].items():
        if status >= "400":
            assert answer["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_says_what_it_does_and_answers(operation: dict[str, Any]) -> None:
    """In words, and as a schema."""
    assert operation["description"]
    assert all(answer["content"] for answer in operation["responses"].values())


def test_the_server_serves_it(empty_server: AppClient) -> None:
    """At its usual address."""
    assert empty_server.get("/openapi.json").json() == DESCRIBED


def test_every_reference_leads_somewhere() -> None:
    """A generator of clients stops at one that does not."""
    text = json.dumps(DESCRIBED)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert names <= DESCRIBED["components"]["schemas"].keys()


@pytest.mark.parametrize(
    ("url", "shape"),
    [
        ("/devices", "DeviceList"),
        ("/devices/h200/ridge", "DeviceRidge"),
        ("/gpus/GPU-a000", "GpuAnswer"),
        ("/nodes/node-01", "NodeAnswer"),
    ],
)
def test_answers_have_exactly_the_described_fields(client: AppClient, url: str, shape: str) -> None:
    """No more and no fewer."""
    post(client, fleet([845.0] * 4))

    answer = client.get(url).json()

    assert list(answer) == list(DESCRIBED["components"]["schemas"][shape]["properties"])
