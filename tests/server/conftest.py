"""Fixtures for tests of the server: an open database, and the application on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleetridge_server.store.database import Database, open_database
from support.app_client import AppClient, app_client
from support.evaluations import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with the newest schema and no row, on SQLite and on PostgreSQL."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def client(database_url: str) -> Iterator[AppClient]:
    """The application on a database without a row, on SQLite and on PostgreSQL."""
    with app_client(database_url) as started:
        yield started


@pytest.fixture
def fleet(database: Database) -> Fleet:
    """A database without a row whose clock the test sets, on SQLite and on PostgreSQL."""
    return Fleet(database)
