"""The page about the API says what the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.describe_api import description

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("`\n")[0]: part for part in PAGE.split("\n### `")[1:]}
DESCRIBED: dict[str, Any] = json.loads(description())
ROUTES = [
    (f"{method.upper()} {path}", operation)
    for path, operations in DESCRIBED["paths"].items()
    for method, operation in operations.items()
]
EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

# Members that a problem has on top of its shape; routes describe them in words.
MEMBERS_OF_PROBLEMS = {"clusters"}


def keys(value: Any) -> Iterator[str]:
    """All field names in a JSON value."""
    if isinstance(value, dict):
        yield from value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(part)


@pytest.mark.parametrize(("route", "operation"), ROUTES, ids=[route for route, _ in ROUTES])
def test_every_route_has_a_section_with_an_example_and_its_parameters(route: str, operation: dict[str, Any]) -> None:
    """Named as in the description."""
    section = SECTIONS[route]

    assert "```" in section
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query":
            assert f"`{parameter['name']}`" in section


def test_no_section_is_about_a_route_that_is_gone() -> None:
    """Old pages mislead."""
    assert SECTIONS.keys() == {route for route, _ in ROUTES}


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_have_only_fields_that_exist(example: str) -> None:
    """A renamed field is renamed here too."""
    known = {name for schema in DESCRIBED["components"]["schemas"].values() for name in schema.get("properties", ())}

    assert set(keys(json.loads(example))) <= known | MEMBERS_OF_PROBLEMS
