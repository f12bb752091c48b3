"""Schemas in words."""

from __future__ import annotations

from typing import Any

import pytest

from fleetridge_server.web.api_docs import Word, docstring_parts, type_words


def in_words(schema: dict[str, Any]) -> str:
    return "".join(word.text for word in type_words(schema))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "date-time"}, "time"),
        ({"type": "string", "enum": ["a", "b"]}, "a, b"),
        ({"type": "string", "const": "gemm"}, "gemm"),
        ({"anyOf": [{"type": "integer", "minimum": 1.0, "maximum": 2147483647.0}, {"type": "null"}]},
         "whole number (1 to 2,147,483,647) or null"),
        ({"type": "number", "exclusiveMinimum": 0.0, "exclusiveMaximum": 1.0}, "number (above 0; below 1)"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Row"}, "maxItems": 8}, "list of Row (at most 8)"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of names with whole number"),
        ({"type": "object", "additionalProperties": True}, "object"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}, "object with a: text, b: anything"),
        ({"type": "string", "maxLength": 9, "pattern": "^[a-z]$"}, "text (at most 9 characters; matches ^[a-z]$)"),
    ],
)  # fmt: skip
def test_a_type_is_said_in_words(schema: dict[str, Any], words: str) -> None:
    assert in_words(schema) == words


def test_a_shape_is_linked_by_its_name() -> None:
    assert type_words({"$ref": "#/components/schemas/GpuRow"}) == (Word("GpuRow", "shape-GpuRow"),)


def test_what_a_docstring_says_of_a_field_stands_beside_the_field() -> None:
    told = docstring_parts(
        "One roof.\n\nOf one\ngpu.\n\nAttributes:\n    low, high: of the\n        interval.\n    unit: its.\n\nThe end."
    )

    assert told.paragraphs == ("One roof.", "Of one gpu.", "The end.")
    assert told.fields == {"low": "of the interval.", "high": "of the interval.", "unit": "its."}
