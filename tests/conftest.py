"""What every test finds: databases of both kinds, laws tried as often as asked for, and no setting of the user's."""

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


# How often hypothesis tries a law. At the desk: often enough to fall over one that is being broken; every run tries
# others. `--hypothesis-profile=many`, as continuous integration has it: the same ones every time, so that a failure
# is one of the change under test. A busy machine is no fault of the code: nothing is judged by the clock.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("desk", _UNTIMED, max_examples=25)
settings.register_profile("many", _UNTIMED, max_examples=200, derandomize=True, database=None, print_blob=True)
settings.load_profile("desk")

# The first one is the one that a test runs on where SQL and locking are not its matter.
_KINDS = ("sqlite", "postgres")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run decide which tests run on both databases."""
    parser.addoption(
        "--databases",
        choices=("differing", "all"),
        default="differing",
        help="which tests run on PostgreSQL as well: those where SQL or locking differs (default), or all",
    )


def pytest_configure() -> None:
    """Forget the settings of the product and of PostgreSQL's client library, so that no test meets a user's data."""
    foreign = ("FLEETRIDGE_",) if "TEST_DATABASE_URL" in os.environ else ("FLEETRIDGE_", "PG")
    for name in list(os.environ):
        if name == "DATABASE_URL" or name.startswith(foreign):
            del os.environ[name]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Run a test with a database once for each kind on which it may come out differently.

    That is where it works on an open `database`, which speaks SQL itself, or is marked `both_databases`. What comes by
    way of a route of the application is the same on both, which `tests/server/test_both_databases.py` shows of each.
    """
    if "databases" in metafunc.fixturenames:
        differs = "database" in metafunc.fixturenames or metafunc.definition.get_closest_marker("both_databases")
        kinds = _KINDS if differs or metafunc.config.getoption("--databases") == "all" else _KINDS[:1]
        metafunc.parametrize("databases", kinds, indirect=True)


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


@pytest.fixture(scope="module")
def databases(request: pytest.FixtureRequest) -> Databases:
    """Maker of databases of the kind on which a test runs; see `pytest_generate_tests`."""
    maker: Databases = request.getfixturevalue(f"{request.param}_databases")
    return maker


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """URL of a fresh database without a table."""
    url = databases.create(migrated=False)
    yield url
    databases.drop(url)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """URL of a fresh database with the newest schema and no row."""
    url = databases.create(migrated=True)
    yield url
    databases.drop(url)
