"""What a schema of the API's description says, in words: types with links to shapes, and texts about fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}
_FORMATS = {"date-time": "time", "uuid": "UUID"}

# A longer one is a list of words that the text beside it names anyway.
_LONGEST_PATTERN = 60

_SECTION = "Attributes:"
_ENTRY = re.compile(r" {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Word:
    """Part of a type; `anchor` is that of the shape that it names."""

    text: str
    anchor: str = ""


Words = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What a docstring tells: paragraphs, and a text for each field that it names."""

    paragraphs: tuple[str, ...]
    fields: Mapping[str, str]


def anchor_of(shape: str) -> str:
    """Anchor of a shape on the page."""
    return f"shape-{shape}"


def type_words(schema: Schema) -> Words:
    """A type in words."""
    if "$ref" in schema:
        shape = schema["$ref"].rpartition("/")[2]
        return (Word(shape, anchor_of(shape)),)
    kinds = schema.get("anyOf", schema.get("oneOf"))
    if kinds is not None:
        return (*_joined(kinds, " or "), *_limits(schema))
    if "const" in schema or "enum" in schema:
        return (Word(", ".join(map(str, schema.get("enum", [schema.get("const")])))),)
    if schema.get("type") == "array":
        return (Word("list of "), *type_words(schema.get("items", {})), *_limits(schema))
    if schema.get("type") == "object":
        return (*_object_words(schema), *_limits(schema))
    kind = _FORMATS.get(schema.get("format", ""), _KINDS.get(schema.get("type", ""), "anything"))
    return (Word(kind), *_limits(schema))


def told_by(docstring: str) -> Told:
    """A docstring, taken apart."""
    paragraphs: list[list[str]] = [[]]
    fields: dict[str, str] = {}
    names: Sequence[str] = ()
    is_of_fields = False
    for line in docstring.splitlines():
        entry = _ENTRY.fullmatch(line) if is_of_fields else None
        if entry is not None:
            names = entry["names"].split(", ")
            fields |= dict.fromkeys(names, entry["text"])
        elif is_of_fields and line.startswith(" "):
            fields |= {name: f"{fields[name]} {line.strip()}" for name in names}
        elif line.strip() == _SECTION:
            is_of_fields = True
        elif line.strip():
            is_of_fields = False
            paragraphs[-1].append(line.strip())
        else:
            paragraphs.append([])
    return Told(tuple(" ".join(lines) for lines in paragraphs if lines), fields)


def _joined(schemas: Sequence[Schema], between: str) -> Words:
    words: list[Word] = []
    for schema in schemas:
        words += [Word(between)] if words else []
        words += type_words(schema)
    return tuple(words)


def _object_words(schema: Schema) -> Words:
    if "properties" in schema:
        own: list[Word] = []
        for name, kind in schema["properties"].items():
            own += [Word(f"{', ' if own else ''}{name}: "), *type_words(kind)]
        return (Word("object with "), *own)
    values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
    kinds = [kind for kind in values if isinstance(kind, Mapping)]
    return (Word("object of names with "), *_joined(kinds, " or ")) if kinds else (Word("object"),)


def _limits(schema: Schema) -> Words:
    found = "; ".join(_limit_words(schema))
    return (Word(f" ({found})"),) if found else ()


def _limit_words(schema: Schema) -> Iterator[str]:
    yield from _span(schema.get("minimum"), schema.get("maximum"), "")
    yield from _span(schema.get("minLength"), schema.get("maxLength"), " characters")
    yield from _span(schema.get("minItems"), schema.get("maxItems"), "")
    yield from _span(schema.get("minProperties"), schema.get("maxProperties"), " names")
    if "exclusiveMinimum" in schema:
        yield f"above {_number(schema['exclusiveMinimum'])}"
    if "exclusiveMaximum" in schema:
        yield f"below {_number(schema['exclusiveMaximum'])}"
    pattern = schema.get("pattern", "")
    if 0 < len(pattern) <= _LONGEST_PATTERN:
        yield f"matches {pattern}"


def _span(least: float | None, most: float | None, unit: str) -> Iterator[str]:
    if least is not None and most is not None:
        yield f"{_number(least)} to {_number(most)}{unit}"
    elif least is not None:
        yield f"at least {_number(least)}{unit}"
    elif most is not None:
        yield f"at most {_number(most)}{unit}"


def _number(value: float) -> str:
    return f"{value:,.10g}"
