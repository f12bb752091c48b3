"""
JSON that both databases and every reader can hold: finite numbers, 64-bit integers, printable text.

The standard allows more than PostgreSQL's JSON, JavaScript or a terminal can take (bare NaN, integers of any size,
NUL and escape characters in text). What cannot be kept faithfully is refused here, with the place named.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from pydantic_core import from_json

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Step: TypeAlias = "str | int"

# A report is six levels deep; ten times that is generous and far from any parser's recursion limit.
MAX_DEPTH = 64

# A value costs some 100 bytes and a microsecond however few bytes it has in the text, so that the size of a text bounds
# neither. The 64 gpus of a node in CPX partitions with 600 points of 14 fields each are half of this.
MAX_VALUES = 2**20

# A report with as many points, roofs and phases as there may be has some 90,000 values.
MAX_VALUES_OF_REPORT = 2**17

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

# What a parser makes; of anything derived from them it is not known what it holds.
_CONTAINERS = frozenset({dict, list})
_KINDS = frozenset({dict, list, str, int, float, bool, type(None)})

# Values of one level of nesting that are looked at together, in less than a megabyte: 500 points of 14 fields each.
_QUICK_PARTS = 2**13

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


class TooManyValuesError(StrictJsonError):
    """Text holds more values than MAX_VALUES; in parts it may pass."""


def loads(text: bytes) -> Json:
    """
    Value of a JSON text in UTF-8.

    Where an object names a key twice, the last one counts.

    Raises:
        StrictJsonError: not JSON, more than MAX_VALUES values, nested deeper than MAX_DEPTH, or holding a non-finite
            number, an integer beyond 64 bits, or a control character in a string or key.
    """
    value = parse(text)
    check(value)
    return value


def parse(text: bytes) -> Json:
    """
    Value of a JSON text in UTF-8, whose parts the caller still has to `check`.

    Raises:
        TooManyValuesError: before anything is made of the text.
        StrictJsonError: not JSON, or nested so deeply that the parser gives up.
    """
    if _most_values(text) > MAX_VALUES:
        raise TooManyValuesError("", f"more than {MAX_VALUES} values (commas and opening brackets); send fewer at once")
    try:
        value: Json = from_json(text, allow_inf_nan=True, cache_strings="keys")
    except ValueError as error:
        if "recursion limit" in str(error):
            raise StrictJsonError("", f"nested deeper than {MAX_DEPTH} levels") from error
        raise StrictJsonError("", f"not JSON in UTF-8: {error}") from error
    return value


def check(value: Json, *, max_values: int = MAX_VALUES) -> None:
    """Raise StrictJsonError for a part of a parsed value that cannot be kept faithfully, or for too many of them."""
    # Nearly every report passes, which is seen several times faster level by level than the place of a fault is found.
    if not _passes(value, max_values):
        _raise_first_fault(value, max_values)


def _passes(value: Json, max_values: int) -> bool:
    """Whether nothing is wrong with a value; False also where that a short look does not show."""
    level: list[Json] = [value]
    count = 1
    for _ in range(MAX_DEPTH):
        kinds = set(map(type, level))
        containers = [part for part in level if type(part) in _CONTAINERS]
        size = sum(map(len, containers))  # type: ignore[arg-type] # they have a length
        count += size
        if not kinds <= _KINDS or count > max_values or size > _QUICK_PARTS or not _may_stay(level):
            return False
        if not size:
            return True
        level = []
        for part in containers:
            if isinstance(part, dict):
                if not "".join(part).isprintable():
                    return False
                level += part.values()
            elif isinstance(part, list):
                level += part
    return False


def _may_stay(parts: list[Json]) -> bool:
    """Whether all texts and numbers among some values can be kept; False where a sum of numbers overflows, too."""
    if not "".join([part for part in parts if type(part) is str]).isprintable():
        return False
    integers: list[int] = [part for part in parts if type(part) is int]
    if integers and not _INT64_MIN <= min(integers) <= max(integers) <= _INT64_MAX:
        return False
    return math.isfinite(sum([part for part in parts if type(part) is float]))


def _raise_first_fault(value: Json, max_values: int) -> None:
    """Walk in the order of the text, so that the first fault is the one that is reported."""
    steps: list[
        Step
    ] = []  # to the container that is being walked; a path is made of them only where something is wrong
    trail: list[Iterator[tuple[Step, Json]]] = [iter([("", value)])]
    count = 1
    while trail:
        for step, current in trail[-1]:
            problem = _problem(current)
            if len(trail) > MAX_DEPTH:
                problem = f"nested deeper than {MAX_DEPTH} levels"
            if isinstance(current, dict | list):
                count += len(current)
                if count > max_values:
                    problem = f"more than {max_values} values up to here; send fewer"
            if problem is not None:
                raise StrictJsonError(_path([*steps, step]), problem)
            if current and isinstance(current, dict | list):
                steps.append(step)
                trail.append(_parts(current))
                break
        else:
            trail.pop()
            if steps:
                steps.pop()


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


def _most_values(text: bytes) -> int:
    """Bound on the values of a JSON text: each stands first in it or in a container, or behind a comma."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def _problem(value: Json) -> str | None:
    if isinstance(value, str):
        return printable_problem(value)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
        return "integer beyond 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return "not a finite number; send null for a missing reading"
    return _key_problem(value) if isinstance(value, dict) else None


def _key_problem(names: Iterable[str]) -> str | None:
    problems = (problem for name in names if (problem := printable_problem(name)) is not None)
    return next((f"in a field's name: {problem}" for problem in problems), None)


def _parts(value: dict[str, Json] | list[Json]) -> Iterator[tuple[Step, Json]]:
    return iter(value.items()) if isinstance(value, dict) else iter(enumerate(value))


def _path(steps: Iterable[Step]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
