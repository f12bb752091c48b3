from __future__ import annotations

import threading
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, text

from fleetridge_server.db.database import open_database
from fleetridge_server.db.document_months import months_ahead
from fleetridge_server.db.tables import Document
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from fleetridge_server.ops.retention import Daily
from support.reports import make_report

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database
    from support.databases import PostgresDatabases

NOW = datetime.now(timezone.utc)
OLD = NOW - timedelta(days=200)


def arrive(database: Database, received_at: datetime) -> None:
    item = examined(make_report(), sent_at=None, received_at=received_at)
    assert isinstance(item, Accepted)
    assert write_reports(database, [item]) == ["created"]


@pytest.mark.parametrize(("days", "kept"), [(None, [OLD, NOW]), (90, [NOW])])
def test_documents_are_dropped_only_where_that_was_asked_for(
    days: int | None, kept: list[datetime], database_url: str, database: Database
) -> None:
    """A server that was told nothing keeps every document."""
    for received_at in (OLD, NOW):
        arrive(database, received_at)

    Daily(database_url, days).run_once(threading.Event())

    with database.reading() as session:
        assert list(session.scalars(select(Document.received_at).order_by(Document.received_at))) == kept


def test_months_are_made_ahead_day_by_day(postgres_databases: PostgresDatabases) -> None:
    """A server that runs for years never meets the end of them."""
    url = postgres_databases.create(migrated=True)
    with closing(open_database(url)) as database:
        newest = months_ahead(NOW)[-1].table
        with database.writing() as session:
            session.execute(text(f"DROP TABLE {newest}"))

        Daily(url, None).run_once(threading.Event())

        with database.reading() as session:
            assert session.scalar(text("SELECT to_regclass(:name)::text"), {"name": newest}) == newest
    postgres_databases.drop(url)
