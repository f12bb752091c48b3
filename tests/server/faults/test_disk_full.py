"""A disk without room: nothing is stored that is not acknowledged, callers are told to come again, and reads go on."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from sqlalchemy import Connection, Engine, event, make_url, text

from fleetridge_server.db.database import open_database
from support.app_client import app_client
from support.load import Load, kept
from support.patience import patient_get, patient_post
from support.processes import children_of
from support.reports import make_report
from support.server_process import server_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.databases import PostgresDatabases, SqliteDatabases
    from support.server_process import ServerProcess

# Enough to grow by some reports, and to be full soon.
ROOM_BYTES = 100_000

MOST_CALLS = 500

# Of any file, by SQLite's documentation of the pragma.
MOST_PAGES = 4_294_967_294

FULL_ON_INSERT = """
CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER is_full BEFORE INSERT ON documents FOR EACH ROW EXECUTE FUNCTION is_full();
"""


def post_until(address: str, made: Load, status: int) -> httpx.Response:
    """Post one report after the other until an answer has a status."""
    for _ in range(MOST_CALLS):
        report = make_report()
        answer = patient_post(f"{address}/reports", json=report)
        made.sent.add(report["report_id"])
        made.answers[str(answer.status_code)] += 1
        if answer.status_code == 201:
            made.acknowledged.add(report["report_id"])
        if answer.status_code == status:
            return answer
    raise AssertionError(made.answers)


def limit_files(server: ServerProcess, most_bytes: int) -> None:
    """Limit what a server and its processes may write into a file, as those that it starts later inherit it."""
    own = server.process.pid
    resource.prlimit(own, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
    for pid in children_of(own):  # after the server itself, so that one that it has just started is either here or heir
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


def test_a_server_whose_files_cannot_grow_says_so_and_goes_on_once_they_can(sqlite_databases: SqliteDatabases) -> None:
    """The limit that a process has of its files stands in for a disk that is full."""
    url = sqlite_databases.create(migrated=True)
    file, made = Path(make_url(url).database or ""), Load()
    with server_process(url) as server:
        address = server.address()
        largest = max(path.stat().st_size for path in file.parent.glob(f"{file.name}*")) + ROOM_BYTES
        limit_files(server, largest)
        refused = post_until(address, made, 503)
        reading = patient_get(f"{address}/devices")
        limit_files(server, resource.RLIM_INFINITY)
        post_until(address, made, 201)
        code = server.stop()

    assert refused.headers["retry-after"]
    assert "disk" in refused.json()["detail"]
    assert reading.status_code == 200
    assert set(made.answers) == {"201", "503"}
    assert kept(url, made).is_right
    assert code == 0


def test_a_sqlite_file_without_room_says_so(sqlite_databases: SqliteDatabases) -> None:
    """In SQLite's own words for a disk that is full."""
    url = sqlite_databases.create(migrated=True)
    with page_limit() as limit, app_client(url) as client:
        limit["pages"] = 1
        refused = [client.post("/reports", json=make_report()) for _ in range(30)][-1]
        reading = client.get("/devices")
        limit["pages"] = MOST_PAGES
        stored = client.post("/reports", json=make_report())

    assert (refused.status_code, reading.status_code, stored.status_code) == (503, 200, 201)
    assert "disk of the database is full" in refused.json()["detail"]
    assert refused.headers["retry-after"]


@contextmanager
def page_limit() -> Iterator[dict[str, int]]:
    """Pages that a SQLite file may have, from each transaction on that begins; never fewer than it has."""
    limit = {"pages": MOST_PAGES}

    def set_limit(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {limit['pages']}")

    event.listen(Engine, "begin", set_limit)
    try:
        yield limit
    finally:
        event.remove(Engine, "begin", set_limit)


def test_a_postgresql_without_room_says_so(postgres_databases: PostgresDatabases) -> None:
    """By its code for it, whatever it was that needed the room."""
    url = postgres_databases.create(migrated=True)
    database = open_database(url)
    with app_client(url) as client:
        with database.writing() as session:
            session.execute(text(FULL_ON_INSERT))
        refused = client.post("/reports", json=make_report())
        with database.writing() as session:
            session.execute(text("DROP TRIGGER is_full ON documents"))
        stored = client.post("/reports", json=make_report())
    database.close()
    postgres_databases.drop(url)

    assert (refused.status_code, stored.status_code) == (503, 201)
    assert "disk of the database is full" in refused.json()["detail"]
    assert refused.headers["retry-after"]
