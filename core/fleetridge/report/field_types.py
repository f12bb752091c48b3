"""Kinds of values that a report is made of, and how each is read from the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, Any
from uuid import UUID

from annotated_types import GroupedMetadata, MaxLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, Field

from fleetridge.strict_json import printable_problem

# What drivers and their tools print where there is no reading. Anything else in square brackets is one too
# ("[GPU requires reset]", "[Insufficient Permissions]").
_ABSENT_WORDS = frozenset({"", "n/a", "none", "null", "nan", "not supported", "unknown error"})
_BRACKETED = re.compile(r"\[.*\]")

# Longest identifier that must be kept whole is a MIG UUID cut by nobody (96 characters); names and versions are
# shorter. Free text (a driver's error) may need a few lines.
_IDENTIFIER_MAX = 256
_DETAIL_MAX = 8192

# A rate or a time of a machine lies well inside these: they keep every ratio and product of two readings finite.
_SMALLEST = 1e-12
_LARGEST = 1e15

# ISO 8601 begins with a date. Without it pydantic takes digits for seconds since 1970: 20261120 is a day of that year.
_BEGINS_WITH_DATE = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}")

# The one spelling that every library writes; braces, `urn:uuid:` and bare digits would make one id look like several.
_PLAIN_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

# PostgreSQL's and SQLite's BIGINT and INTEGER.
_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1


class WireModel(BaseModel):
    """Base of every part of a report: immutable, refuses non-finite numbers, keeps unknown fields."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class AtMost(GroupedMetadata):
    """
    Bound on a list or an object: refused by its length, before its entries are looked at.

    Of a list with faulty entries the first one is named with all its faults. Both keep the cost of a refusal small.
    """

    entries: int

    def __iter__(self) -> Iterator[object]:
        """Give what pydantic understands: the length for the schema, and the check ahead of the entries."""
        yield MaxLen(self.entries)
        yield FailFast()
        yield BeforeValidator(self._short_enough)

    def _short_enough(self, value: Any) -> Any:  # noqa: ANN401 # takes whatever the wire holds
        if isinstance(value, list | tuple | dict) and len(value) > self.entries:
            raise ValueError(f"{len(value)} entries; send at most {self.entries}")
        return value


def _absent_as_none(value: Any) -> Any:  # noqa: ANN401 # takes whatever the wire holds
    if isinstance(value, str):
        word = value.strip()
        if word.casefold() in _ABSENT_WORDS or _BRACKETED.fullmatch(word):
            return None
    return value


def _printable(text: str) -> str:
    problem = printable_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _iso_text(value: Any) -> Any:  # noqa: ANN401 # takes whatever the wire holds
    if isinstance(value, datetime) or (isinstance(value, str) and _BEGINS_WITH_DATE.match(value)):
        return value
    raise ValueError("send a time as ISO 8601 text, such as 2026-01-31T12:00:00Z")


def _plain_uuid(value: Any) -> Any:  # noqa: ANN401 # takes whatever the wire holds
    if isinstance(value, UUID) or (isinstance(value, str) and _PLAIN_UUID.fullmatch(value)):
        return value
    raise ValueError("send a UUID in its plain form, such as 01a22912-ebe4-7dcb-9109-e122e1e199ec")


def _not_nil(value: UUID) -> UUID:
    if value.int == 0:
        raise ValueError("a UUID of zeros is none; make a new one")
    return value


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("time lies outside the years 1 to 9999 in UTC") from None


Text = Annotated[str, Field(max_length=_IDENTIFIER_MAX), AfterValidator(_printable)]
"""Printable text of at most 256 characters."""

Detail = Annotated[str, Field(max_length=_DETAIL_MAX), AfterValidator(_printable)]
"""Printable free text of at most 8192 characters, such as a driver's error on one line."""

Slug = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]
"""Machine word such as `timed_out`."""

TextReading = Annotated[Text | None, BeforeValidator(_absent_as_none)]
"""Text that a driver may not have; "[N/A]" and its like are None."""

Reading = Annotated[
    Annotated[float, Field(strict=True, ge=-_LARGEST, le=_LARGEST)] | None, BeforeValidator(_absent_as_none)
]
"""Number that a driver may not have; "[N/A]" and its like are None, never 0."""

ShareReading = Annotated[
    Annotated[float, Field(strict=True, ge=0, le=_LARGEST)] | None, BeforeValidator(_absent_as_none)
]
"""
Part of something, at least 0, that may not be known.

The bound stands inside the union: one put around a reading would be held against None too.
"""

CountReading = Annotated[
    Annotated[int, Field(strict=True, ge=0, le=_INT64_MAX)] | None, BeforeValidator(_absent_as_none)
]
"""Count or size in bytes, 64 bits, that a driver may not have."""

SmallCountReading = Annotated[
    Annotated[int, Field(strict=True, ge=0, le=_INT32_MAX)] | None, BeforeValidator(_absent_as_none)
]
"""Count of 32 bits (an index, multiprocessors) that a driver may not have."""

SwitchReading = Annotated[Annotated[bool, Field(strict=True)] | None, BeforeValidator(_absent_as_none)]
"""Switch whose position may be unknown: None is not False."""

Count = Annotated[int, Field(strict=True, ge=1, le=_INT32_MAX)]
"""Whole number of at least 1, such as a matrix dimension or a number of repetitions."""

ByteCount = Annotated[int, Field(strict=True, ge=1, le=_INT64_MAX)]
"""Size in bytes, at least 1, 64 bits."""

PositiveNumber = Annotated[float, Field(strict=True, ge=_SMALLEST, le=_LARGEST)]
"""Number above zero within the bounds of a machine's times and rates."""

PlainUuid = Annotated[UUID, BeforeValidator(_plain_uuid), AfterValidator(_not_nil)]
"""UUID in the form with hyphens and nothing around it, not of zeros alone."""

UtcTime = Annotated[datetime, BeforeValidator(_iso_text), AfterValidator(_utc)]
"""Point in time in UTC; a time without a zone is taken as UTC, one with another zone is converted."""
