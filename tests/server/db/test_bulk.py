"""Many rows at once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Table, insert, select

from fleetridge_server.db.rows import CHUNK_ROWS, insert_or_replace, write_rows
from fleetridge_server.db.tables import Device
from fleetridge_server.db.verdict_tables import VerdictChange

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from fleetridge_server.db.database import Database

NOON = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)
CHANGES = cast("Table", VerdictChange.__table__)


def change(key: int, **fields: Any) -> dict[str, Any]:
    """A row with a column of every kind."""
    common = {
        "id": key,
        "device_id": 1,
        "identity": f"GPU-ü{key}",
        "simulated": key % 2 == 0,
        "evaluation_id": 2**40,
        "historical": False,
        "as_of": NOON + timedelta(microseconds=key % 7),
        "made_at": NOON.astimezone(timezone(timedelta(hours=5))),
        "state": None,
        "last_state": None,
        "since": NOON,
        "reason": None,
        "loss": key / 7,
        "text": f"slow by {key}",
        "body": None,
    }
    return common | fields


def rows(session: Session) -> list[dict[str, Any]]:
    """All rows as they read back."""
    return [dict(row) for row in session.execute(select(CHANGES).order_by(CHANGES.c.id)).mappings()]


def with_a_device(database: Database) -> None:
    with database.writing() as session:
        session.add(Device(id=1, name="Device", slug="device"))


def test_rows_read_back_as_they_were_given(database: Database) -> None:
    """More than one statement takes, of every kind of column, as if SQLAlchemy had written each."""
    with_a_device(database)
    given = [change(key, body='{"gpu": 1}' if key % 3 else None) for key in range(1, 2 * CHUNK_ROWS + 2)]
    with database.writing() as session:
        write_rows(session, CHANGES, insert(CHANGES), given)

    with database.reading() as session:
        assert rows(session) == given


def test_rows_can_take_the_place_of_others(database: Database) -> None:
    """Those with the same key."""
    with_a_device(database)
    with database.writing() as session:
        write_rows(session, CHANGES, insert(CHANGES), [change(1), change(2)])
        replacing = insert_or_replace(session, CHANGES)
        write_rows(session, CHANGES, replacing, [change(2, state="ok"), change(3)])

    with database.reading() as session:
        assert rows(session) == [change(1), change(2, state="ok"), change(3)]


def test_no_rows_are_no_statement(database: Database) -> None:
    """Nothing to write is nothing done."""
    with database.writing() as session:
        write_rows(session, CHANGES, insert(CHANGES), [])
        assert rows(session) == []
