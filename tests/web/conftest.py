"""A real browser, and a server with a made-up fleet for it to look at."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fleetridge_server.db.database import open_database
from support.browser_tabs import CHROMIUM, Site, Tab, simulated, tab_of
from support.tokens import make_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from support.databases import SqliteDatabases


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 # no part of the environment of `make test`

    assert CHROMIUM is not None, "there is no Chromium here: install Debian's `chromium`, or name one in CHROMIUM"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def site(sqlite_databases: SqliteDatabases) -> Iterator[Site]:
    """A server that asks for no token."""
    with simulated(sqlite_databases.create(migrated=True)) as found:
        yield found


@pytest.fixture(scope="session")
def guarded_site(sqlite_databases: SqliteDatabases) -> Iterator[Site]:
    """A server that asks for tokens, and one that may operate."""
    database_url = sqlite_databases.create(migrated=True)
    with closing(open_database(database_url)) as database:
        token = make_token(database, "operate")
    with simulated(database_url, token) as found:
        yield found


@pytest.fixture
def tab(browser: Browser, site: Site) -> Iterator[Tab]:
    """A tab on the server that asks for no token."""
    with tab_of(browser, site) as opened:
        yield opened
