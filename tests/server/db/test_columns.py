from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from sqlalchemy import bindparam, insert, select
from sqlalchemy.exc import StatementError

from fleetridge_server.db.column_types import PackedJson, packed
from fleetridge_server.db.tables import Node

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database

NOON = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)


def node(**changes: Any) -> dict[str, Any]:
    return {"cluster": "east", "name": "n1", "labels": {}, "last_rank": "", "last_report_id": UUID(int=1), **changes}


@pytest.mark.parametrize(
    "moment",
    [
        NOON,
        NOON.astimezone(timezone(timedelta(hours=9))),
        datetime(1, 1, 1, tzinfo=timezone.utc),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
    ],
)
def test_a_time_comes_back_as_the_same_moment_in_utc(database: Database, moment: datetime) -> None:
    """Whatever its zone was, and for every year that a date can have."""
    with database.writing() as session:
        session.execute(insert(Node).values(node(last_seen=moment)))
    with database.reading() as session:
        stored = session.scalar(select(Node.last_seen))

    assert stored == moment
    assert stored.tzinfo == timezone.utc


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    """It would mean something else on each database."""
    with database.writing() as session, pytest.raises(StatementError, match="has no zone"):
        session.execute(insert(Node).values(node(last_seen=datetime(2026, 1, 1))))  # noqa: DTZ001 # the fault meant


def test_times_sort_by_moment(database: Database) -> None:
    """Also where they came in different zones."""
    moments = [NOON.astimezone(timezone(timedelta(hours=hours))) + timedelta(hours=hours) for hours in (9, -8, 0)]
    rows = [node(name=str(place), last_seen=moment) for place, moment in enumerate(moments)]

    with database.writing() as session:
        session.execute(insert(Node), rows)
    with database.reading() as session:
        names = session.scalars(select(Node.name).order_by(Node.last_seen)).all()

    assert names == ["1", "2", "0"]


def test_no_roster_is_null_in_sql(database: Database) -> None:
    """A query for nodes without a roster finds them on both databases."""
    with database.writing() as session:
        session.execute(insert(Node).values(node(roster=None)))
    with database.reading() as session:
        found = session.scalars(select(Node.name).where(Node.roster.is_(None))).all()

    assert found == ["n1"]


def test_packed_text_reads_back_as_it_was(database: Database) -> None:
    """Whether the database packs it, or it was packed before."""
    body = '{"gpu": "GPU-ü", "loss": 0.1}' * 50

    with database.reading() as session:
        read = [session.scalar(select(bindparam("body", given, PackedJson()))) for given in (body, packed(body))]

    assert read == [body, body]
    assert len(packed(body)) < len(body) / 5
