"""The API's description as a page."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from fleetridge_server.auth.permissions import SCOPE_OF_ROUTE, Scope
from fleetridge_server.http.authentication import caller_of
from fleetridge_server.web.forms import visitor_of
from fleetridge_server.web.rendering import Frame, Links, html

Schema = Mapping[str, Any]

_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
_FORMATS = {"date-time": "time", "uuid": "UUID"}

# A longer one is a list of words that the text beside it names anyway.
_LONGEST_PATTERN = 60

_SPANS = (
    ("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", ""),
    ("minProperties", "maxProperties", " names"),
)  # fmt: skip

_SECTION = "Attributes:"
_ENTRY = re.compile(r" {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Word:
    """Part of a type; `anchor` is that of the shape that it names."""

    text: str
    anchor: str = ""


Words = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class DocstringParts:
    """What a docstring says: paragraphs, and a text for each field that it names."""

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


def docstring_parts(docstring: str) -> DocstringParts:
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
    return DocstringParts(tuple(" ".join(lines) for lines in paragraphs if lines), fields)


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
    for least, most, unit in _SPANS:
        yield from _span(schema.get(least), schema.get(most), unit)
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


router = APIRouter(include_in_schema=False)

PATH = "/docs"
_DESCRIPTION = "/openapi.json"

_TOKEN_HEADER = "Authorization: Bearer $(cat token)"  # noqa: S105 # a file of the reader's
_TEXT_HEADER = "Accept: text/plain"
# Of an answer that people can have as a table.
_FORMS = {"application/json", "text/plain"}
_BODY_HEADER = "Content-Type: application/json"

# What the framework says of an answer of which we say nothing: neither do we here.
_OF_FRAMEWORK = "Successful Response"

# What people look for comes first, whatever the order in which routes are put together.
_LAST = "health"


@dataclass(frozen=True, slots=True)
class FieldShown:
    """A parameter, or a field of a shape; `place` is where a parameter stands, `default` is in JSON, empty for none."""

    name: str
    kind: Words
    needed: bool
    default: str
    meaning: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class AnswerShown:
    """What a route answers under one status: media types with what they hold."""

    status: str
    meaning: str
    forms: tuple[tuple[str, Words], ...]
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RouteShown:
    """One route: what it does, takes and answers, and a command that asks it."""

    anchor: str
    method: str
    path: str
    paragraphs: tuple[str, ...]
    scope: Scope | None
    parameters: tuple[FieldShown, ...]
    body: Words
    answers: tuple[AnswerShown, ...]
    command: str


@dataclass(frozen=True, slots=True)
class SchemaShown:
    """An object that routes take or answer with."""

    anchor: str
    name: str
    paragraphs: tuple[str, ...]
    fields: tuple[FieldShown, ...]


@dataclass(frozen=True, slots=True)
class ApiPage:
    """What the page shows; `groups` are routes by what they are about."""

    summary: str
    groups: Mapping[str, Sequence[RouteShown]]
    shapes: tuple[SchemaShown, ...]
    description: str = _DESCRIPTION


@router.get(PATH)
def get_api_page(request: Request) -> Response:
    """The description of the API for people, drawn from `/openapi.json`."""
    app: FastAPI = request.app
    asks_for_token = caller_of(request).token_id is not None
    shown = api_page(app.openapi(), base=str(request.base_url).rstrip("/"), asks_for_token=asks_for_token)
    frame = Frame("API", Links(), datetime.now(timezone.utc), _DESCRIPTION, visitor_of(request))
    return html("api_docs.html", frame, shown)


def api_page(description: Mapping[str, Any], *, base: str, asks_for_token: bool) -> ApiPage:
    """The page about a description in OpenAPI 3.1, as this server makes it."""
    routes: dict[str, list[RouteShown]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            shown = _route(method, path, operation, base=base, asks_for_token=asks_for_token)
            routes.setdefault(operation["tags"][0], []).append(shown)
    return ApiPage(
        summary=description["info"]["description"],
        groups={tag: routes[tag] for tag in sorted(routes, key=lambda tag: tag == _LAST)},
        shapes=tuple(_shape(name, own) for name, own in sorted(description["components"]["schemas"].items())),
    )


def _route(method: str, path: str, operation: Mapping[str, Any], *, base: str, asks_for_token: bool) -> RouteShown:
    answers = tuple(_answer(status, own) for status, own in operation["responses"].items())
    parameters = tuple(_parameter(own) for own in operation.get("parameters", ()))
    body = _content(operation.get("requestBody", {}))
    headers = [
        *([_TOKEN_HEADER] if asks_for_token and operation.get("security") else []),
        *([_TEXT_HEADER] if any({name for name, _ in answer.forms} >= _FORMS for answer in answers) else []),
        *([_BODY_HEADER] if body else []),
    ]
    return RouteShown(
        anchor=operation["operationId"],
        method=method.upper(),
        path=path,
        paragraphs=docstring_parts(operation["description"]).paragraphs,
        scope=_scopes().get((method.upper(), path)),
        parameters=parameters,
        body=body[0][1] if body else (),
        answers=answers,
        command=_command(method.upper(), base + path + _query_of(parameters), headers, has_body=bool(body)),
    )


def _parameter(parameter: Mapping[str, Any]) -> FieldShown:
    schema = parameter["schema"]
    if "anyOf" in schema:  # null is what it is where it is left out, and cannot be sent
        schema = {**schema, "anyOf": [kind for kind in schema["anyOf"] if kind != {"type": "null"}]}
    meaning = parameter.get("description", "")
    return _field(parameter["name"], schema, meaning, needed=parameter["required"], place=parameter["in"])


def _field(name: str, schema: Schema, meaning: str, *, needed: bool, place: str = "") -> FieldShown:
    default = schema.get("default")
    return FieldShown(
        name=name,
        kind=type_words(schema),
        needed=needed,
        default="" if default in (None, [], {}) else str(default),
        meaning=meaning,
        place=place,
    )


def _answer(status: str, answer: Mapping[str, Any]) -> AnswerShown:
    headers = answer.get("headers", {}).items()
    return AnswerShown(
        status=status,
        meaning=answer["description"].replace(_OF_FRAMEWORK, ""),
        forms=_content(answer),
        headers=tuple((name, own.get("description", "")) for name, own in headers),
    )


def _content(holder: Mapping[str, Any]) -> tuple[tuple[str, Words], ...]:
    """What a body holds, by media type."""
    return tuple(
        (media_type, type_words(own.get("schema", {}))) for media_type, own in holder.get("content", {}).items()
    )


def _shape(name: str, schema: Schema) -> SchemaShown:
    parts, needed = docstring_parts(schema.get("description", "")), schema.get("required", ())
    return SchemaShown(
        anchor=anchor_of(name),
        name=name,
        paragraphs=parts.paragraphs,
        fields=tuple(
            _field(field, own, parts.fields.get(field, ""), needed=field in needed)
            for field, own in schema.get("properties", {}).items()
        ),
    )


def _scopes() -> dict[tuple[str, str], Scope | None]:
    """Scopes by the addresses of the description, which do not say what a parameter takes."""
    return {(method, path.replace(":path}", "}")): scope for (method, path), scope in SCOPE_OF_ROUTE.items()}


def _query_of(parameters: Iterable[FieldShown]) -> str:
    """Query with a word in place of each parameter that is needed."""
    needed = [f"{own.name}={own.name.upper()}" for own in parameters if own.place == "query" and own.needed]
    return f"?{'&'.join(needed)}" if needed else ""


def _command(method: str, address: str, headers: Iterable[str], *, has_body: bool) -> str:
    """Command that asks a route, with a word in capitals in place of each parameter of its address."""
    # Headers are in double quotes, so that the shell puts the token in.
    options = [f"-X {method}"] * (method != "GET") + [f'-H "{header}"' for header in headers]
    options += ["--data @body.json"] * has_body
    asked = re.sub(r"\{(\w+)\}", lambda parameter: parameter[1].upper(), address)
    return " ".join(["curl", *options, shlex.quote(asked)])
