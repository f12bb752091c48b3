from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection, Engine, event, make_url, text

from fleetridge_server.db.schema import SchemaError
from support.app_client import app_client
from support.reports import make_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleetridge_server.db.database import Database
    from support.app_client import AppClient
    from support.databases import PostgresDatabases, SqliteDatabases

pytestmark = pytest.mark.both_databases


def test_a_started_server_is_alive_and_ready(client: AppClient) -> None:
    """With a database that has the right schema."""
    assert client.get("/livez").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_a_database_that_was_taken_back_makes_it_not_ready(client: AppClient, database: Database) -> None:
    """With the remedy, while it is alive all the same."""
    with database.writing() as session:
        session.execute(text("DELETE FROM schema_revision"))

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["code"] == "schema_mismatch"
    assert "fleetridge-server migrate" in answer.json()["detail"]
    assert answer.headers["retry-after"]
    assert client.get("/livez").status_code == 200


def test_a_database_that_was_changed_by_a_newer_server_makes_it_not_ready(
    client: AppClient, database: Database
) -> None:
    """An unknown revision is not guessed at."""
    with database.writing() as session:
        session.execute(text("UPDATE schema_revision SET version_num = 'later'"))

    assert "newer" in client.get("/readyz").json()["detail"]


def test_a_database_that_is_gone_makes_it_not_ready(postgres_databases: PostgresDatabases) -> None:
    """Reads, writes and readiness say so; the process stays alive and no secret is told."""
    url = postgres_databases.create(migrated=True)
    with app_client(url) as client:
        postgres_databases.drop(url)
        answers = [client.get("/readyz"), client.get("/devices"), client.post("/reports", json=make_report())]
        alive = client.get("/livez")

    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert {answer.json()["code"] for answer in answers} == {"database_unavailable"}
    assert alive.status_code == 200
    assert not any("fleetridge_test" in answer.text for answer in answers)


def test_a_start_without_the_schema_fails(empty_database_url: str) -> None:
    """Rather than answer every call with an error."""
    with pytest.raises(SchemaError, match="migrate"), app_client(empty_database_url):
        pass


def test_a_data_file_that_is_deleted_takes_no_reports(sqlite_databases: SqliteDatabases) -> None:
    """They would be lost; readiness and the refusal name the remedy, and no empty file takes its place."""
    url = sqlite_databases.create(migrated=True)
    file = Path(make_url(url).database or "")
    with app_client(url) as client:
        kept = client.post("/reports", json=make_report())
        file.unlink()
        refused = [client.post("/reports", json=make_report()), client.get("/readyz")]

    assert kept.status_code == 201
    assert [answer.status_code for answer in refused] == [503, 503]
    assert all("put it back" in answer.json()["detail"] for answer in refused)
    assert not file.exists()


def test_a_database_that_may_only_be_read_says_so(client: AppClient) -> None:
    """Reads go on, a report is refused with the remedy."""
    with only_read():
        refused = client.post("/reports", json=make_report())
        read = client.get("/devices")

    assert (refused.status_code, read.status_code) == (503, 200)
    assert "may only be read" in refused.json()["detail"]


def test_a_database_that_may_only_be_read_is_not_ready(client: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no report is sent there."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with only_read():
        answer = client.get("/readyz")

    assert answer.status_code == 503
    assert "may only be read" in answer.json()["detail"]


@contextmanager
def only_read() -> Iterator[None]:
    """Every transaction that begins meanwhile is refused its writes by the database."""

    def forbid(connection: Connection) -> None:
        on_postgres = connection.dialect.name == "postgresql"
        connection.exec_driver_sql("SET TRANSACTION READ ONLY" if on_postgres else "PRAGMA query_only = ON")

    event.listen(Engine, "begin", forbid)
    try:
        yield
    finally:
        event.remove(Engine, "begin", forbid)
