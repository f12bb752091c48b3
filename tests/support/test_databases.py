"""The databases that other tests are given."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, inspect, text

from support import postgres_keeper
from support.patience import PATIENCE_S
from support.postgres import PostgresUnavailableError, own_server, server_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.databases import Databases

pytestmark = pytest.mark.both_databases


def tables(url: str) -> set[str]:
    engine = create_engine(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def execute(url: str, statement: str) -> None:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


def test_an_empty_database_has_no_table(empty_database_url: str) -> None:
    assert tables(empty_database_url) == set()


def test_a_migrated_database_has_the_schema(database_url: str) -> None:
    assert {"schema_revision", "reports"} <= tables(database_url)


def test_what_one_test_writes_the_next_does_not_see(databases: Databases) -> None:
    first = databases.create(migrated=True)
    execute(first, "CREATE TABLE mark (id INTEGER)")
    second = databases.create(migrated=True)
    assert tables(first) - tables(second) == {"mark"}
    databases.drop(first)
    databases.drop(second)


def test_a_database_is_dropped_though_somebody_is_connected(databases: Databases) -> None:
    url = databases.create(migrated=False)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE mark (id INTEGER)"))
    databases.drop(url)
    engine.dispose()
    remade = create_engine(url)
    with pytest.raises(Exception, match=r"does not exist|no such table"), remade.begin() as connection:
        connection.execute(text("SELECT id FROM mark"))
    remade.dispose()


def test_a_named_server_that_does_not_answer_is_an_error_with_its_remedy() -> None:
    environment = {"TEST_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    with pytest.raises(PostgresUnavailableError, match="TEST_DATABASE_URL=postgresql"), server_url(environment):
        pass


def test_a_named_server_of_another_kind_is_refused() -> None:
    with (
        pytest.raises(PostgresUnavailableError, match="names sqlite"),
        server_url({"TEST_DATABASE_URL": "sqlite:///x"}),
    ):
        pass


def test_a_named_server_is_used_as_it_is(postgres_url: str) -> None:
    plain = postgres_url.replace("postgresql+psycopg", "postgresql")
    with server_url({"TEST_DATABASE_URL": plain}) as url:
        assert url.render_as_string(hide_password=False) == postgres_url


def test_our_own_server_is_gone_after_its_block() -> None:
    with own_server() as url:
        data = Path(str(url.query["host"]))
        assert (data / "PG_VERSION").is_file()
    assert not data.parent.exists()


def test_our_own_server_ends_with_a_run_that_is_killed() -> None:
    code = (
        "import time; from support.postgres import own_server\n"
        "with own_server() as url: print(url.query['host'], flush=True); time.sleep(600)"
    )
    tests = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(tests)}
    ) as run:
        assert run.stdout is not None
        data = Path(run.stdout.readline().strip())
        assert (data / "PG_VERSION").is_file()
        run.kill()
    wait_until_gone(data.parent)


def test_a_server_whose_keeper_was_killed_is_stopped_by_the_next_run(open_folder: Path) -> None:
    folder = open_folder / f"{postgres_keeper.PREFIX}left"
    folder.mkdir()
    (folder / postgres_keeper.LOCK_NAME).touch()
    with postgres_keeper.start(folder) as server:
        postgres_keeper.remove_leftovers(open_folder)
        assert server.wait(PATIENCE_S) is not None
    assert not folder.exists()


def test_a_server_with_a_living_keeper_is_left_alone() -> None:
    with own_server() as url:
        data = Path(str(url.query["host"]))
        postgres_keeper.remove_leftovers(data.parent.parent)
        execute(url.render_as_string(), "SELECT 1")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the server's user can reach, which pytest's own are not where we are root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


def wait_until_gone(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while folder.exists():
        assert time.monotonic() < deadline, f"{folder} is still there"
        time.sleep(0.05)
