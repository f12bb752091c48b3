"""Fixtures for every test: databases of both kinds, and an environment in which no setting of the user's is left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from support.databases import Databases, PostgresDatabases, SqliteDatabases
from support.postgres import server_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL


# A busy machine is no fault of the code, so nothing is judged by the clock; the rest stays as hypothesis has it (and in
# continuous integration the same examples every time).
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Forget the settings of the product and of PostgreSQL's client library, so that no test meets a user's data."""
    foreign = ("FLEETRIDGE_",) if "TEST_DATABASE_URL" in os.environ else ("FLEETRIDGE_", "PG")
    for name in list(os.environ):
        if name == "DATABASE_URL" or name.startswith(foreign):
            del os.environ[name]


@pytest.fixture(scope="session")
def _postgres_server() -> Iterator[URL]:
    with server_url(os.environ) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url(_postgres_server: URL) -> str:
    """Address of a database on a real PostgreSQL server, whose user may create others."""
    return _postgres_server.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def postgres_databases(_postgres_server: URL) -> Iterator[PostgresDatabases]:
    """Maker of PostgreSQL databases, for tests that need several or both kinds."""
    databases = PostgresDatabases(_postgres_server)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    """Maker of SQLite databases, for tests that need several or both kinds."""
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest) -> Databases:
    """Maker of databases; a test that uses it runs once for each kind."""
    maker: Databases = request.getfixturevalue(f"{request.param}_databases")
    return maker


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """URL of a fresh database without a table, on SQLite and on PostgreSQL."""
    url = databases.create(migrated=False)
    yield url
    databases.drop(url)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """URL of a fresh database with the newest schema and no row, on SQLite and on PostgreSQL."""
    url = databases.create(migrated=True)
    yield url
    databases.drop(url)
