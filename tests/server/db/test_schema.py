from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, insert, inspect, select, text

from fleetridge_server.db import schema
from fleetridge_server.db.database import create_database_engine, open_database
from fleetridge_server.db.schema import METADATA, SchemaError, is_month
from fleetridge_server.db.tables import Document, Gpu, Node, Report, Roof
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from support.patience import PATIENCE_S
from support.reports import make_report
from support.revisions import FIRST, copied_migrations, make_unreleased, with_next_revision
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Engine

pytestmark = pytest.mark.both_databases

TABLES = set(METADATA.tables)

MIGRATE_IN = """
import sys
from pathlib import Path
from fleetridge_server.db import schema
from fleetridge_server.db.database import create_database_engine
schema.migrate(sys.argv[1], migrations=Path(sys.argv[2]))
print(schema.current_revision(create_database_engine(sys.argv[1])))
"""


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    made = create_database_engine(empty_database_url)
    yield made
    made.dispose()


def store_some(database_url: str) -> None:
    database = open_database(database_url)
    items = [examined(make_report(gpu__uuid=f"GPU-{n}"), sent_at=None, received_at=NOW) for n in range(5)]
    assert write_reports(database, [item for item in items if isinstance(item, Accepted)]) == ["created"] * 5
    database.close()


def counts(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {
            table.__tablename__: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (Node, Gpu, Report, Document, Roof)
        }


def plain_tables(engine: Engine) -> set[str]:
    """Tables that are no months of another."""
    return {name for name in inspect(engine).get_table_names() if not is_month(name)}


def test_an_empty_database_gets_all_tables(empty_database_url: str, engine: Engine) -> None:
    """And the revision that this server needs."""
    schema.migrate(empty_database_url)

    assert plain_tables(engine) == TABLES | {"schema_revision"}
    schema.check_schema(engine)


def test_migrating_twice_changes_nothing(empty_database_url: str, engine: Engine) -> None:
    """Every start may migrate."""
    schema.migrate(empty_database_url)
    store_some(empty_database_url)
    before = counts(engine)

    schema.migrate(empty_database_url)

    assert counts(engine) == before


def test_models_and_migrations_agree(empty_database_url: str) -> None:
    """A column that exists in one of the two only is found here."""
    schema.migrate(empty_database_url)

    schema.check_drift(empty_database_url)


def test_all_the_way_back_and_up_again(empty_database_url: str, engine: Engine) -> None:
    """With rows present; the oldest schema has no tables, so nothing can be kept there."""
    schema.migrate(empty_database_url)
    store_some(empty_database_url)

    schema.downgrade(empty_database_url, "base")
    tables_at_base = set(inspect(engine).get_table_names())
    schema.migrate(empty_database_url)

    assert tables_at_base == {"schema_revision"}
    assert set(counts(engine).values()) == {0}
    schema.check_drift(empty_database_url)


def test_changing_a_table_that_others_refer_to_keeps_their_rows(
    empty_database_url: str, engine: Engine, tmp_path: Path
) -> None:
    """Up and down; making a table anew must not take documents and roofs with it."""
    schema.migrate(empty_database_url)
    store_some(empty_database_url)
    before = counts(engine)
    newer = with_next_revision(tmp_path)

    schema.migrate(empty_database_url, migrations=newer)
    after_upgrade = counts(engine)
    schema.downgrade(empty_database_url, "-1", migrations=newer)

    assert after_upgrade == before
    assert counts(engine) == before
    schema.check_drift(empty_database_url)


def test_a_migration_that_fails_changes_nothing(empty_database_url: str, engine: Engine, tmp_path: Path) -> None:
    """Neither tables nor rows nor revision."""
    schema.migrate(empty_database_url)
    store_some(empty_database_url)
    before = counts(engine)

    with pytest.raises(ZeroDivisionError):
        schema.migrate(empty_database_url, migrations=with_next_revision(tmp_path, more="1 / 0"))

    assert counts(engine) == before
    assert "remark" not in {column["name"] for column in inspect(engine).get_columns("reports")}
    assert "remarks" not in plain_tables(engine)
    schema.check_schema(engine)


def test_a_migration_that_would_orphan_rows_is_undone(empty_database_url: str, engine: Engine, tmp_path: Path) -> None:
    """SQLite's references are off while tables are made anew, and looked at before the end."""
    schema.migrate(empty_database_url)
    store_some(empty_database_url)
    before = counts(engine)
    orphaning = with_next_revision(tmp_path, more="""op.execute("DELETE FROM reports")""")

    with pytest.raises(Exception, match=r"refer|violates foreign key"):
        schema.migrate(empty_database_url, migrations=orphaning)

    assert counts(engine) == before


def test_a_database_without_tables_is_refused_with_the_remedy(engine: Engine) -> None:
    """The first thing that a newcomer meets."""
    with pytest.raises(SchemaError, match="fleetridge-server migrate"):
        schema.check_schema(engine)


def test_an_older_schema_is_refused_with_the_remedy(
    empty_database_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server that is newer than its database does not guess."""
    schema.migrate(empty_database_url)
    newer = with_next_revision(tmp_path)
    monkeypatch.setattr(schema, "migrations_folder", lambda: newer)

    with pytest.raises(SchemaError, match="fleetridge-server migrate"):
        schema.check_schema(engine)


def test_a_newer_schema_is_refused_by_start_and_by_migrate(
    empty_database_url: str, engine: Engine, tmp_path: Path
) -> None:
    """A server that is older than its database says so, and leaves it alone."""
    schema.migrate(empty_database_url, migrations=with_next_revision(tmp_path))

    with pytest.raises(SchemaError, match="newer"):
        schema.check_schema(engine)
    with pytest.raises(SchemaError, match="newer"):
        schema.migrate(empty_database_url)


def test_four_servers_that_migrate_at_once_all_come_up(empty_database_url: str, engine: Engine) -> None:
    """One does it, the others wait and find nothing left to do."""
    command = [sys.executable, "-m", "fleetridge_server.cli", "migrate", "--database-url", empty_database_url]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    outputs = [server.communicate(timeout=PATIENCE_S) for server in servers]

    assert [server.returncode for server in servers] == [0] * 4, outputs
    schema.check_schema(engine)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM schema_revision")) == 1


def test_the_next_revision_is_drafted_from_the_models(
    empty_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a file with the next number, which runs as it is when nothing differs."""
    copied = copied_migrations(tmp_path)
    schema.migrate(empty_database_url)
    number = f"{len(list((copied / 'versions').glob('*.py'))) + 1:04}"

    draft = schema.draft_revision(empty_database_url, "Remarks of people", migrations=copied)
    ran = subprocess.run(  # in a process that has not looked at the folder before
        [sys.executable, "-c", MIGRATE_IN, empty_database_url, str(copied)], check=True, capture_output=True, text=True
    )

    assert draft.name == f"{number}_remarks_of_people.py"
    assert ran.stdout.strip() == number
    assert "Generating" in capsys.readouterr().out


def test_sizes_beyond_32_bits_are_kept(empty_database_url: str, engine: Engine) -> None:
    """Bytes of memory are 64 bits on both databases."""
    schema.migrate(empty_database_url)
    database = open_database(empty_database_url)
    item = examined(make_report(gpu__memory_bytes=206158430208), sent_at=None, received_at=NOW)
    assert isinstance(item, Accepted)
    write_reports(database, [item])
    database.close()

    with engine.connect() as connection:
        assert connection.scalar(select(Gpu.memory_bytes)) == 206158430208


def test_ids_count_up_by_themselves(empty_database_url: str, engine: Engine) -> None:
    """Rows without an id get one on both databases."""
    schema.migrate(empty_database_url)
    with engine.begin() as connection:
        for name in ("a", "b"):
            connection.execute(insert(METADATA.tables["devices"]).values(name=name, slug=name))
        ids = connection.scalars(text("SELECT id FROM devices ORDER BY id")).all()

    assert len(set(ids)) == 2


@pytest.mark.parametrize("revision", ["0001", "0003", "0006"])
def test_a_database_of_before_the_first_release_is_refused_with_the_remedy(
    empty_database_url: str, engine: Engine, revision: str
) -> None:
    """Whatever is to be done with it, and nothing is done; numbers of old revisions mean other schemas today."""
    make_unreleased(empty_database_url, revision)
    doings: list[Callable[[], object]] = [
        lambda: schema.check_schema(engine),
        lambda: schema.current_revision(engine),
        lambda: schema.migrate(empty_database_url),
        lambda: schema.move(empty_database_url, FIRST),
        lambda: schema.downgrade(empty_database_url, "base"),
        lambda: schema.check_drift(empty_database_url),
        lambda: schema.draft_revision(empty_database_url, "Remarks"),
    ]

    for doing in doings:
        with pytest.raises(SchemaError, match=r"before version 0\.1\.0.*name a new one.*post or import"):
            doing()

    assert plain_tables(engine) == TABLES | {"alembic_version"}


def test_a_database_is_shared_with_others_who_use_alembic(empty_database_url: str, engine: Engine) -> None:
    """Their revision is none of ours, and stays as it is."""
    with engine.execution_options(fleetridge_writes=True).begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('0006')"))

    schema.migrate(empty_database_url)

    schema.check_schema(engine)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "0006"


def test_the_first_migration_imports_no_model() -> None:
    """A released migration never changes, the models do."""
    versions = schema.migrations_folder() / "versions"
    names = [path.name for path in sorted(versions.glob("*.py"))]

    assert names[0] == "0001_first.py"
    assert not any("fleetridge" in path.read_text(encoding="utf-8") for path in versions.glob("*.py"))
