"""Kinds of columns that SQLite and PostgreSQL hold alike."""

import zlib
from collections.abc import Callable
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, DateTime, Dialect, Integer, LargeBinary
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator

# SQLite counts rows by itself only in a column declared INTEGER, which holds 64 bits there.
RowId = BigInteger().with_variant(Integer, "sqlite")

# PostgreSQL compares and indexes JSONB but not JSON. None is SQL null on both, never the JSON text "null".
JsonDocument = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

# A fleet's verdicts are packed in one go; the best compression takes four times as long for a tenth less.
_QUICK = 1

# The rows of a call or of an evaluation share a few times, and writing one takes as long as the rest of a row.
TIMES_REMEMBERED = 1024


class UtcDateTime(TypeDecorator[datetime]):
    """
    Point in time in UTC.

    PostgreSQL keeps the zone; SQLite has none, so that there the zone is taken off and put back. A time without a zone
    is refused, for it would mean something else on each database.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Value as the database takes it. Raises ValueError: the time has no zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"time {value.isoformat()} has no zone; make it UTC before it is stored")
        in_utc = value.astimezone(timezone.utc)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ANN401 # as the base
        """Value as the code takes it, in UTC."""
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=timezone.utc) if dialect.name == "sqlite" else moment.astimezone(timezone.utc)


def packed(text: str | bytes) -> bytes:
    """A text as PackedJson keeps it, for those who do not want to make it while they hold a lock."""
    return zlib.compress(text.encode() if isinstance(text, str) else text, _QUICK)


class PackedJson(TypeDecorator[str]):
    """
    JSON text that is only read as a whole, compressed: bodies of verdicts repeat their field names.

    The text is given and taken as it is, nothing is parsed here; bytes are packed already.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | bytes | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 # as the base
        """Text as the database takes it."""
        return packed(value) if isinstance(value, str) else value

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:  # noqa: ANN401, ARG002 # as the base
        """Text as the code takes it."""
        return None if value is None else zlib.decompress(value).decode()


def driver_writer(column: Column[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """
    What makes a value of a column one that the driver takes; None where it takes it as it is.

    For those who write many rows at once, which share a few times: those are remembered.
    """
    write: Callable[[Any], Any] | None = column.type.dialect_impl(dialect).bind_processor(dialect)
    if write is None or not isinstance(column.type, UtcDateTime):
        return write
    return lru_cache(maxsize=TIMES_REMEMBERED)(write)
