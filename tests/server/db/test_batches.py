from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest
from sqlalchemy import Table, func, insert, select
from sqlalchemy.exc import IntegrityError

from fleetridge_server.db.rows import insert_rows, update_rows
from fleetridge_server.db.tables import Document, Gpu, Node, Report
from support.times import NOW

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database

NODES, REPORTS, DOCUMENTS = (cast("Table", table.__table__) for table in (Node, Report, Document))
EAST = timezone(timedelta(hours=9))

NUMBERS = [None, 0.0, -0.0, 1 / 3, 0.1, 5e-324, 1e-7, 1.7976931348623157e308, 123456789012345.67, -4.9e-5, 845.0]
TEXTS = ["", "plain", "é — 漢字", "a'b\"c\\d", "%s %(x)s ? {}", '{"json": "in a text"}', "null"]
TIMES = [
    datetime(1, 1, 1, tzinfo=timezone.utc),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
    datetime(2026, 11, 20, 12, 0, 0, 1, tzinfo=EAST),
    datetime(2026, 11, 20, 3, tzinfo=timezone.utc),
]


def node(number: int, **values: Any) -> dict[str, Any]:
    return {
        "cluster": "east", "name": f"n{number}", "labels": {}, "first_seen": NOW, "last_seen": None,
        "last_report_id": UUID(int=number), "last_rank": "", "roster": None, "quarantined": False, **values,
    }  # fmt: skip


def report(number: int, **values: Any) -> dict[str, Any]:
    return {
        "id": UUID(int=number), "content_sha256": bytes(range(256)), "received_at": NOW, "clock_ahead": False,
        "outcome": "measured", "run_id": UUID(int=1), "run_kind": "cron", "cluster": "east", "agent_version": "0.1.0",
        "power_limit_w": None, "memory_bytes": None, "ecc_enabled": None, "detail": None, "health": None,
        "ordered_at": None, **values,
    }  # fmt: skip


@pytest.fixture
def reports() -> list[dict[str, Any]]:
    """Rows with values of every kind of column, and at the ends of what they may be."""
    values = (
        [{"power_limit_w": number} for number in NUMBERS]
        + [{"detail": text} for text in TEXTS]
        + [{"ordered_at": moment} for moment in TIMES]
        + [{"ecc_enabled": switch} for switch in (True, False)]
        + [{"memory_bytes": size} for size in (0, -(2**63), 2**63 - 1)]
        + [{"health": {"a": [1, None, {"b": number}], "c": text}} for number, text in zip(NUMBERS, TEXTS, strict=False)]
    )
    return [report(number, **own) for number, own in enumerate(values, start=1)]


def test_rows_read_back_as_sqlalchemy_would_have_written_them(
    database: Database, reports: list[dict[str, Any]]
) -> None:
    """Every kind of column, to the last bit."""
    with database.writing() as session:
        session.execute(insert(REPORTS), [{**own, "id": UUID(int=own["id"].int + 1000)} for own in reports])
        insert_rows(session, REPORTS, reports)
    with database.reading() as session:
        rows = session.execute(select(REPORTS).order_by(REPORTS.c.id)).all()

    half = len(reports)
    assert [repr(row[1:]) for row in rows[:half]] == [repr(row[1:]) for row in rows[half:]]
    assert [row.power_limit_w for row in rows[: len(NUMBERS)]] == NUMBERS


def test_bytes_of_any_length_read_back(database: Database) -> None:
    """A document is some thousand of them."""
    bodies = [b"", b"\\x00", bytes(range(256)) * 300]
    rows = [{"received_at": NOW, "report_id": UUID(int=place), "body": body} for place, body in enumerate(bodies)]
    with database.writing() as session:
        insert_rows(session, DOCUMENTS, rows)
    with database.reading() as session:
        found = session.scalars(select(Document.body).order_by(Document.report_id)).all()

    assert [bytes(body) for body in found] == bodies


@pytest.mark.parametrize("rows", [1, 75, 76, 77, 1000])
def test_any_number_of_rows_is_inserted_and_counted(database: Database, rows: int) -> None:
    """Also beyond what one statement takes."""
    with database.writing() as session:
        inserted = insert_rows(session, NODES, [node(number) for number in range(rows)])
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(NODES)) == inserted == rows


def test_no_rows_are_no_statement(database: Database) -> None:
    """A report may have no roofs."""
    with database.writing() as session:
        assert insert_rows(session, NODES, []) == 0
        update_rows(session, NODES, [])


def test_rows_whose_key_is_taken_are_left_alone_and_not_counted(database: Database) -> None:
    """As whoever loses a race finds out."""
    with database.writing() as session:
        insert_rows(session, NODES, [node(1, labels={"of": "first"})])
        inserted = insert_rows(session, NODES, [node(1, labels={"of": "second"}), node(2)], ignoring=True)
    with database.reading() as session:
        labels = session.scalars(select(Node.labels).order_by(Node.name)).all()

    assert (inserted, labels) == (1, [{"of": "first"}, {}])


def test_rows_are_written_over_those_with_their_id(database: Database) -> None:
    """All columns but the id, and no other row."""
    with database.writing() as session:
        insert_rows(session, NODES, [node(number) for number in range(3)])
        rows = [dict(row) for row in session.execute(select(NODES).order_by(NODES.c.id)).mappings()]
        changed = [row | {"labels": {"rack": row["name"]}, "last_seen": NOW, "roster": [1]} for row in rows[1:]]
        update_rows(session, NODES, changed)
    with database.reading() as session:
        found = [dict(row) for row in session.execute(select(NODES).order_by(NODES.c.id)).mappings()]

    assert found == [rows[0], *changed]


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    """As everywhere; it would mean something else on each database."""
    with pytest.raises(ValueError, match="no zone"), database.writing() as session:
        insert_rows(session, NODES, [node(1, last_seen=NOW.replace(tzinfo=None))])


def test_a_reference_to_nothing_is_refused(database: Database) -> None:
    """The databases guard references as they do for other statements."""
    with pytest.raises(IntegrityError), database.writing() as session:
        insert_rows(session, REPORTS, [report(1, gpu_id=7)])
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Gpu)) == 0
