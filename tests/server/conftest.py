"""Fixtures for tests of the server: an open database, the application on it, and fleets that are only looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleetridge_server.db.database import Database, open_database
from support.app_client import AppClient, app_client
from support.evaluated import SLOW, SOUND, runs
from support.evaluations import Fleet
from support.read_only import fleet_to_read
from support.reports import make_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.databases import Databases


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with the newest schema and no row."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def client(database_url: str) -> Iterator[AppClient]:
    """The application on a database without a row."""
    with app_client(database_url) as started:
        yield started


@pytest.fixture
def fleet(database: Database) -> Fleet:
    """A database without a row whose clock the test sets."""
    return Fleet(database)


@pytest.fixture(scope="module")
def empty_server(databases: Databases) -> Iterator[AppClient]:
    """The application on a database without a row, for all tests of a module: nothing can be written."""
    with fleet_to_read(databases) as client:
        yield client


@pytest.fixture(scope="module")
def one_report(databases: Databases) -> Iterator[AppClient]:
    """A report of GPU-00000001 of node-01, which nobody evaluated; nothing can be written."""
    with fleet_to_read(databases, [make_report()], is_evaluated=False) as client:
        yield client


@pytest.fixture(scope="module")
def sick_node(databases: Databases) -> Iterator[AppClient]:
    """Eight gpus of node n01, the last of them slow; evaluated, and nothing can be written."""
    with fleet_to_read(databases, runs("n01", [SOUND] * 7 + [SLOW])) as client:
        yield client


@pytest.fixture(scope="module")
def sick_fleet(databases: Databases) -> Iterator[AppClient]:
    """Sixteen gpus of nodes n01 and n02, the last of them slow; evaluated, and nothing can be written."""
    with fleet_to_read(databases, [*runs("n01", [SOUND] * 8), *runs("n02", [SOUND] * 7 + [SLOW])]) as client:
        yield client
