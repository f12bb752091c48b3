"""
JSON that both databases and every reader can hold: finite numbers, 64-bit integers, printable text.

The standard allows more than PostgreSQL's JSON, JavaScript or a terminal can take (bare NaN, integers of any size,
NUL and escape characters in text). What cannot be kept faithfully is refused here, with the place named.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from typing import TypeAlias

from pydantic_core import from_json

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

# A report is six levels deep; ten times that is generous and far from any parser's recursion limit.
MAX_DEPTH = 64

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

# Cc: control characters; Cs: lone surrogates, which no UTF-8 text can hold.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs"})


class StrictJsonError(ValueError):
    """
    Text is not JSON, or JSON that cannot be kept faithfully.

    Attributes:
        path: where, as in `points[3].ms`; empty where the text as a whole is meant.
        problem: what is wrong there and what would be right.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


def loads(text: bytes) -> Json:
    """
    Value of a JSON text in UTF-8.

    Raises:
        StrictJsonError: not JSON, nested deeper than MAX_DEPTH, or holding a non-finite number, an integer beyond
            64 bits, or a control character in a string or key.
    """
    value = parse(text)
    check(value)
    return value


def parse(text: bytes) -> Json:
    """
    Value of a JSON text in UTF-8, whose parts the caller still has to `check`.

    Raises:
        StrictJsonError: not JSON, or nested so deeply that the parser gives up.
    """
    try:
        value: Json = from_json(text, allow_inf_nan=True, cache_strings="keys")
    except ValueError as error:
        if "recursion limit" in str(error):
            raise StrictJsonError("", f"nested deeper than {MAX_DEPTH} levels") from error
        raise StrictJsonError("", f"not JSON in UTF-8: {error}") from error
    return value


def check(value: Json, path: str = "") -> None:
    """Raise StrictJsonError for a part of a parsed value that cannot be kept faithfully."""
    pending: list[tuple[Json, str, int]] = [(value, path, 1)]
    while pending:
        current, where, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise StrictJsonError(where, f"nested deeper than {MAX_DEPTH} levels")
        problem = _scalar_problem(current)
        if problem is not None:
            raise StrictJsonError(where, problem)
        pending.extend((child, name, depth + 1) for child, name in _children(current, where))


def printable_problem(text: str) -> str | None:
    """What keeps a text from being stored and printed as it is, or None."""
    if text.isprintable():  # the common case, decided in C
        return None
    for character in text:
        if unicodedata.category(character) in _REFUSED_CATEGORIES:
            return f"control character U+{ord(character):04X} in text; send it without"
    return None


def as_printable(text: str) -> str:
    """Text with every refused character written out in backslash form, for what a driver or a stranger said."""
    if printable_problem(text) is None:
        return text
    return "".join(_written_out(character) for character in text)


def _written_out(character: str) -> str:
    if unicodedata.category(character) not in _REFUSED_CATEGORIES:
        return character
    return character.encode("unicode_escape").decode("ascii")


def _scalar_problem(value: Json) -> str | None:
    if isinstance(value, str):
        return printable_problem(value)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
        return "integer beyond 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return "not a finite number; send null for a missing reading"
    return None


def _children(value: Json, path: str) -> Iterator[tuple[Json, str]]:
    if isinstance(value, dict):
        for key, child in value.items():
            problem = printable_problem(key)
            if problem is not None:
                raise StrictJsonError(path, f"in a field's name: {problem}")
            yield child, f"{path}.{key}" if path else key
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield child, f"{path}[{position}]"
