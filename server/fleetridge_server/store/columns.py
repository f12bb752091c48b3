"""Kinds of columns that SQLite and PostgreSQL hold alike."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator

# SQLite counts rows by itself only in a column declared INTEGER, which holds 64 bits there.
RowId = BigInteger().with_variant(Integer, "sqlite")

# PostgreSQL compares and indexes JSONB but not JSON. None is SQL null on both, never the JSON text "null".
JsonDocument = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class UtcDateTime(TypeDecorator[datetime]):
    """
    Point in time in UTC.

    PostgreSQL keeps the zone; SQLite has none, so that there the zone is taken off and put back. A time without a zone
    is refused, for it would mean something else on each database.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """
        Value as the database takes it.

        Raises:
            ValueError: the time has no zone.
        """
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
