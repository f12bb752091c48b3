"""A replica that is killed while it migrates: the next one finds the schema as it was, and finishes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import inspect, text

from fleetridge_server.db import schema
from fleetridge_server.db.database import create_database_engine
from support.patience import PATIENCE_S
from support.revisions import FIRST, with_next_revision

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.both_databases


# Migrates, and says "half" and waits in the midst of the newest revision, its tables made and its transaction open.
MIGRATE_AND_WAIT = """
import sys, time
from pathlib import Path
from alembic.operations import Operations
from fleetridge_server.db import schema
from fleetridge_server.db.database import create_database_engine

create, made = Operations.create_table, []

def create_and_wait(self, *arguments, **options):
    table = create(self, *arguments, **options)
    made.append(table)
    if len(made) == int(sys.argv[2]):
        print("half", flush=True)
        time.sleep(600)
    return table

Operations.create_table = create_and_wait
schema.migrate(sys.argv[1], migrations=Path(sys.argv[3]))
"""


def kill_halfway(url: str, tables: int, migrations: Path) -> None:
    """Start a migration and kill it once it has made so many tables."""
    command = [sys.executable, "-c", MIGRATE_AND_WAIT, url, str(tables), str(migrations)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as migrating:
        assert migrating.stdout is not None
        assert migrating.stdout.readline() == "half\n"
        migrating.kill()


def test_a_migration_that_is_killed_leaves_the_schema_as_it_was_and_the_next_finishes(
    empty_database_url: str, tmp_path: Path
) -> None:
    """From nothing to the first schema, and from there to the next."""
    found = []
    for migrations, tables in ((schema.migrations_folder(), 2), (with_next_revision(tmp_path), 1)):
        before = state(empty_database_url)
        kill_halfway(empty_database_url, tables, migrations)
        found.append(state(empty_database_url) == before)
        schema.migrate(empty_database_url, migrations=migrations)

    assert found == [True, True]
    schema.move(empty_database_url, FIRST, migrations=migrations)
    schema.check_drift(empty_database_url)


def test_a_replica_that_waits_for_one_that_is_killed_migrates_in_its_place(empty_database_url: str) -> None:
    """Without being told."""
    own = str(schema.migrations_folder())
    command = [sys.executable, "-c", MIGRATE_AND_WAIT, empty_database_url, "2", own]
    waiting = [sys.executable, "-m", "fleetridge_server.cli", "migrate", "--database-url", empty_database_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as migrating:
        assert migrating.stdout is not None
        assert migrating.stdout.readline() == "half\n"
        with subprocess.Popen(waiting, stdout=subprocess.PIPE, text=True) as other:
            migrating.kill()
            told, _ = other.communicate(timeout=PATIENCE_S)

    assert other.returncode == 0
    assert "up to date" in told
    schema.check_drift(empty_database_url)


def state(url: str) -> tuple[str | None, set[str]]:
    """Revision and tables."""
    engine = create_database_engine(url)
    try:
        tables = set(inspect(engine).get_table_names())
        with engine.connect() as connection:
            has_revision = "schema_revision" in tables
            revision = connection.scalar(text("SELECT version_num FROM schema_revision")) if has_revision else None
        return revision, tables
    finally:
        engine.dispose()
