"""Users of PostgreSQL who do not own the tables, and servers that run as them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from sqlalchemy import make_url, text

from fleetridge_server.db.database import create_database_engine, open_database
from fleetridge_server.db.document_months import months_ahead
from fleetridge_server.db.schema import RightsError, check_rights, ownership_warning
from support.app_client import app_client
from support.patience import PATIENCE_S, patient_get, patient_post
from support.reports import make_report
from support.server_process import server_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.databases import PostgresDatabases, SqliteDatabases

ROWS = (
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public",
)


@dataclass(frozen=True)
class Guest:
    """A user who owns nothing in a database, and both addresses of it."""

    name: str
    url: str
    owners_url: str

    def owner_does(self, *statements: str) -> None:
        """Run statements as the owner."""
        with closing(open_database(self.owners_url)) as database, database.writing() as session:
            for statement in statements:
                session.execute(text(statement))


@pytest.fixture
def guest(postgres_databases: PostgresDatabases) -> Iterator[Guest]:
    name, owners_url = f"guest_{uuid4().hex}", postgres_databases.create(migrated=True)
    url = make_url(owners_url).set(username=name).render_as_string(hide_password=False)
    own = Guest(name, url, owners_url)
    own.owner_does(f"CREATE ROLE {name} LOGIN")
    yield own
    own.owner_does(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
    postgres_databases.drop(owners_url)


def test_a_user_without_rights_is_told_what_to_grant(guest: Guest) -> None:
    """The statements of the remedy are all that it needs."""
    engine = create_database_engine(guest.url)
    with pytest.raises(RightsError) as refused:
        check_rights(engine)
    remedy = str(refused.value).partition(" run ")[2]

    guest.owner_does(*remedy.split("; "))
    check_rights(engine)
    engine.dispose()

    assert guest.name in str(refused.value)
    assert "reports" in str(refused.value)


def test_a_server_whose_user_owns_nothing_works_and_says_what_it_cannot_do(guest: Guest, tmp_path: Path) -> None:
    """With the remedy."""
    guest.owner_does(*(f"{grant} TO {guest.name}" for grant in ROWS))
    log = tmp_path / "log"
    with log.open("w") as stderr, server_process(guest.url, stderr=stderr) as server:
        address = server.address()
        answers = [
            patient_post(f"{address}/reports", json=make_report()),
            *(patient_get(f"{address}{path}") for path in ("/readyz", "/devices", "/fleet", "/metrics")),
        ]
        code = server.stop()

    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200]
    assert code == 0
    assert "does not own the tables" in log.read_text()
    assert "fleetridge-server migrate" in log.read_text()


def test_a_server_whose_user_may_not_write_does_not_start(guest: Guest, tmp_path: Path) -> None:
    """And says so in a sentence."""
    guest.owner_does(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {guest.name}")
    log = tmp_path / "log"
    with log.open("w") as stderr, server_process(guest.url, stderr=stderr) as server:
        code = server.process.wait(PATIENCE_S)

    assert code == 1
    assert "GRANT SELECT, INSERT" in log.read_text().splitlines()[-1]


def test_a_month_that_only_the_owner_can_make_is_told_to_callers(guest: Guest) -> None:
    """Their reports wait, and arrive once the owner has migrated."""
    guest.owner_does(*(f"{grant} TO {guest.name}" for grant in ROWS))
    month = months_ahead(datetime.now(timezone.utc))[0].table
    with app_client(guest.url) as client:
        guest.owner_does(f"DROP TABLE {month}")
        refused = client.post("/reports", json=make_report())

    assert refused.status_code == 503
    assert refused.headers["retry-after"]
    assert "own the tables" in refused.json()["detail"]


def test_owners_and_files_lack_nothing(
    postgres_databases: PostgresDatabases, sqlite_databases: SqliteDatabases
) -> None:
    """Nor is anything said."""
    for databases in (postgres_databases, sqlite_databases):
        url = databases.create(migrated=True)
        engine = create_database_engine(url)
        check_rights(engine)
        assert ownership_warning(engine) is None
        engine.dispose()
        databases.drop(url)
