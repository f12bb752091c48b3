from __future__ import annotations

import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from sqlalchemy import delete, insert, select, text, update

from fleetridge_server import cli
from fleetridge_server.db import schema
from fleetridge_server.db.access_tables import Notification, StoredToken
from fleetridge_server.db.database import create_database_engine, open_database
from fleetridge_server.db.locks import ServedAlreadyError, sole_server
from fleetridge_server.db.schema import METADATA, SchemaError
from fleetridge_server.db.tables import Document, Gpu
from fleetridge_server.db.verdict_tables import EvaluationDue, InventoryEntry, StoredMark
from fleetridge_server.ops import copy as copying
from fleetridge_server.ops.copy import CopiedTable, CopyError, copy_database
from support.app_client import app_client
from support.evaluations import NOON, Fleet, a_fleet
from support.reports import make_report
from support.revisions import make_unreleased, with_next_revision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Table
    from sqlalchemy.orm import Session

    from fleetridge_server.db.database import Database
    from support.databases import Databases, PostgresDatabases, SqliteDatabases

pytestmark = pytest.mark.both_databases

# What copies rows when no test is in its place.
ALL_ROWS = copying.copy_rows

LONG_AGO = datetime(2020, 2, 29, tzinfo=timezone.utc)


class InterruptedCopyError(Exception):
    """Stands for whatever ends a copy."""


@pytest.fixture
def target_url(databases: Databases, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database of the other kind than the source."""
    other = "postgres_databases" if databases is request.getfixturevalue("sqlite_databases") else "sqlite_databases"
    maker: Databases = request.getfixturevalue(other)
    url = maker.create(migrated=False)
    yield url
    maker.drop(url)


@pytest.fixture
def source_url(database_url: str) -> str:
    """A database with rows in every table that a fleet, its evaluations and its people fill."""
    database = open_database(database_url)
    fleet = Fleet(database)
    fleet.store([make_report(gpu__uuid="GPU-old", node__name="ä n0")], received_at=LONG_AGO)
    fleet.store(a_fleet({"GPU-3": 0.3}))
    fleet.evaluate()
    with database.writing() as session:
        session.execute(insert(StoredMark).values(**MARK))
        session.execute(insert(InventoryEntry).values(cluster="east", node="n1"))
        session.execute(insert(Notification).values(**MESSAGE))
        session.execute(insert(StoredToken).values(name="t", sha256=b"\x00\xff", scopes="read", created_at=NOON))
        device_id = fleet.device_group().device_id
        session.execute(insert(EvaluationDue).values(device_id=device_id, simulated=True, since=NOON, latest=NOON))
    database.close()
    return database_url


MARK: dict[str, Any] = {
    "kind": "accepted",
    "reason": "r",
    "author": "a",
    "made_at": NOON,
    "simulated": False,
    "loss": 0.1,
}
MESSAGE: dict[str, Any] = {
    "message_id": UUID(int=7),
    "made_at": NOON,
    "body": "{}",
    "tries": 0,
    "next_try_at": NOON,
}


def no_progress(_table: str, _done: int, _total: int) -> None:
    """Nobody looks."""


def rows(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, bodies unpacked, in an order that both databases have."""
    database = open_database(url)
    with database.reading() as session:
        found = {
            table.name: sorted(
                (dict(row) for row in session.execute(select(table)).mappings()),
                key=by_key(table),
            )
            for table in METADATA.sorted_tables
        }
    database.close()
    return found


def by_key(table: Table) -> Callable[[dict[str, Any]], str]:
    """A row by its key, in an order that both databases have."""
    return lambda row: str([row[column.name] for column in table.primary_key.columns])


def change(url: str, *statements: Any) -> None:
    database = open_database(url)
    with database.writing() as session:
        for statement in statements:
            session.execute(statement)
    database.close()


def test_everything_is_copied(source_url: str, target_url: str) -> None:
    """From either kind to the other: each row of each table, word by word, with the counts."""
    copied = copy_database(source_url, target_url, no_progress)

    expected = rows(source_url)
    assert rows(target_url) == expected
    assert copied == [CopiedTable(name, len(own), len(own)) for name, own in expected.items()]
    filled = {name for name, own in expected.items() if own}
    assert filled >= {"reports", "documents", "roofs", "gpu_histories", "gpu_verdicts", "alerts", "tokens", "marks"}


def test_a_server_on_the_copy_goes_on_where_the_other_stopped(source_url: str, target_url: str) -> None:
    """It says the same of every gpu, takes a repeated report for one, and gives new rows ids that are free."""
    change(source_url, delete(StoredToken))  # else it asks for one
    with app_client(source_url) as client:
        before = [client.get(page).json() for page in ("/devices/h200/ridge", "/nodes", "/alerts")]
        sent = client.get(f"/reports/{rows(source_url)['reports'][0]['id']}").json()
    copy_database(source_url, target_url, no_progress)

    with app_client(target_url) as client:
        after = [client.get(page).json() for page in ("/devices/h200/ridge", "/nodes", "/alerts")]
        again = client.post("/reports", json=sent)
        new = client.post("/reports", json=make_report(gpu__uuid="GPU-new", node__name="new", gpu__device="New"))

    assert without_times(before) == without_times(after)
    assert (again.status_code, new.status_code) == (200, 201)


def without_times(answer: Any) -> Any:
    """What does not depend on when it was asked."""
    if isinstance(answer, dict):
        return {name: without_times(part) for name, part in answer.items() if name not in ("as_of", "age_s")}
    return [without_times(part) for part in answer] if isinstance(answer, list) else answer


def test_a_copy_that_was_interrupted_goes_on(source_url: str, target_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was, time and again; in the end it is whole."""
    monkeypatch.setattr(copying, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(copying, "BODIES_AT_ONCE", 3)
    interruptions = 0
    patience = 0
    while True:
        patience += 12
        steps = iter(range(patience))

        def interrupt(_table: str, _done: int, _total: int, steps: Iterator[int] = steps) -> None:
            if next(steps, None) is None:
                raise InterruptedCopyError

        try:
            copy_database(source_url, target_url, interrupt)
        except InterruptedCopyError:
            interruptions += 1
        else:
            break

    assert interruptions > 2
    assert rows(target_url) == rows(source_url)


def test_a_copy_that_was_killed_goes_on(source_url: str, target_url: str) -> None:
    """A process ended by SIGKILL at one table and, again, at another; a server does not start on what it left."""
    command = [sys.executable, "-m", "fleetridge_server.cli", "copy", "--database-url", source_url, "--to", target_url]
    for table in ("reports", "documents"):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            next(line for line in process.stderr if line.startswith(f"{table}:"))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        with pytest.raises(SchemaError, match="run the same `fleetridge-server copy` again"):
            check_schema(target_url)

    last = subprocess.run(command, check=True, capture_output=True, text=True)

    assert rows(target_url) == rows(source_url)
    assert "reports" in last.stdout
    check_schema(target_url)


def check_schema(url: str) -> None:
    """As a server does when it starts."""
    engine = create_database_engine(url)
    try:
        schema.check_schema(engine)
    finally:
        engine.dispose()


def test_what_changed_in_the_source_meanwhile_is_changed_in_the_copy(source_url: str, target_url: str) -> None:
    """Rows that are new, other and gone since the copy was interrupted."""
    with pytest.raises(InterruptedCopyError):
        copy_database(source_url, target_url, end_at("gpu_verdicts"))
    database = open_database(source_url)
    fleet = Fleet(database, now=NOON + timedelta(hours=2))
    fleet.store(a_fleet({"GPU-5": 0.3}, until=NOON + timedelta(hours=1)))
    fleet.evaluate()
    with database.writing() as session:
        session.execute(delete(InventoryEntry))
        session.execute(insert(InventoryEntry).values(id=77, cluster="east", node="n1"))
        session.execute(delete(Document).where(Document.received_at == LONG_AGO))
        session.execute(update(Gpu).where(Gpu.identity == "GPU-old").values(memory_bytes=None))
    database.close()

    copy_database(source_url, target_url, no_progress)

    assert rows(target_url) == rows(source_url)


def end_at(table: str) -> Any:
    """Progress that ends the copy when it begins with a table."""

    def look(name: str, _done: int, _total: int) -> None:
        if name == table:
            raise InterruptedCopyError

    return look


def test_a_target_with_rows_of_its_own_is_left_alone(source_url: str, target_url: str) -> None:
    """Also one that was a whole copy, which may have gone on since."""
    copy_database(source_url, target_url, no_progress)
    before = rows(target_url)

    with pytest.raises(CopyError, match=r"rows of its own in .*reports.*; name an empty database"):
        copy_database(source_url, target_url, no_progress)

    assert rows(target_url) == before


def test_half_a_copy_of_another_source_is_left_alone(source_url: str, target_url: str, databases: Databases) -> None:
    """The rows of two sources never mix."""
    other = databases.create(migrated=True)
    with pytest.raises(InterruptedCopyError):
        copy_database(other, target_url, end_at("reports"))

    with pytest.raises(CopyError, match="half a copy of"):
        copy_database(source_url, target_url, no_progress)
    databases.drop(other)


def test_a_target_of_another_schema_or_of_something_else_is_refused(
    source_url: str, target_url: str, postgres_databases: PostgresDatabases, tmp_path: Path
) -> None:
    """With what to do."""
    schema.migrate(target_url, migrations=with_next_revision(tmp_path))
    with pytest.raises(SchemaError, match="a newer server made it"):
        copy_database(source_url, target_url, no_progress)

    old = postgres_databases.create(migrated=False)
    make_unreleased(old, "0006")
    with pytest.raises(SchemaError, match=r"made before version 0\.1\.0"):
        copy_database(source_url, old, no_progress)
    postgres_databases.drop(old)

    foreign = postgres_databases.create(migrated=False)
    change(foreign, text("CREATE TABLE somebody_elses (x INTEGER)"))
    with pytest.raises(CopyError, match="tables of something else"):
        copy_database(source_url, foreign, no_progress)
    postgres_databases.drop(foreign)


def test_a_source_with_tables_that_would_stay_behind_is_refused(source_url: str, target_url: str) -> None:
    """Nothing is lost in silence."""
    change(source_url, text("CREATE TABLE of_a_plug_in (x INTEGER)"))

    with pytest.raises(CopyError, match="of_a_plug_in"):
        copy_database(source_url, target_url, no_progress)


def test_a_source_that_is_served_is_refused(sqlite_databases: SqliteDatabases, target_url: str) -> None:
    """What would be stored during the copy would be lost with the old file."""
    url = sqlite_databases.create(migrated=True)
    with sole_server(url), pytest.raises(ServedAlreadyError, match="stop that one"):
        copy_database(url, target_url, no_progress)


def test_a_database_is_not_copied_onto_itself(source_url: str) -> None:
    """However it is spelled."""
    same = source_url.replace("postgresql+psycopg://", "postgresql://")
    with pytest.raises(CopyError, match="the same database"):
        copy_database(source_url, same, no_progress)


def test_two_copies_into_one_target_do_not_mix(source_url: str, postgres_databases: PostgresDatabases) -> None:
    """The second is told to wait."""
    url = postgres_databases.create(migrated=False)
    refusals: list[str] = []

    def begin_another(name: str, _done: int, _total: int) -> None:
        if name == "reports" and not refusals:
            with pytest.raises((CopyError, ServedAlreadyError)) as refused:
                copy_database(source_url, url, no_progress)
            refusals.append(str(refused.value))

    copy_database(source_url, url, begin_another)

    assert len(refusals) == 1
    postgres_databases.drop(url)


def test_the_command_shows_the_counts_and_no_password(
    source_url: str, target_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Progress goes to standard error."""
    code = cli.main(["copy", "--database-url", source_url, "--to", target_url])
    out, err = capsys.readouterr()
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}

    assert code == 0
    assert lines["reports"] == ["25", "25"]
    assert "reports: 0 of 25 rows" in err
    assert "DATABASE_URL" in out


def test_counts_of_both_sides_must_agree(source_url: str, target_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has fewer rows than the source is not called a copy, and is taken up by the next."""
    with monkeypatch.context() as patched:
        patched.setattr(copying, "copy_rows", without_roofs)
        with pytest.raises(CopyError, match="roofs has 0 of 50 rows"):
            copy_database(source_url, target_url, no_progress)

    copy_database(source_url, target_url, no_progress)

    assert rows(target_url) == rows(source_url)


def without_roofs(source: Session, target: Database, table: Table, on_rows: Callable[[int], None]) -> None:
    """A copy that leaves something out."""
    if table.name != "roofs":
        ALL_ROWS(source, target, table, on_rows)
