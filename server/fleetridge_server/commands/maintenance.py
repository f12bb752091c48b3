"""The commands that look after a database: `migrate`, `retention`, `backup` and `copy`."""

import argparse
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from fleetridge.text_table import Column, text_table
from fleetridge_server.db import schema
from fleetridge_server.db.database import open_database, shown_url
from fleetridge_server.ops.backup import back_up
from fleetridge_server.ops.copy import copy_database
from fleetridge_server.ops.retention import drop_old, dropped_message
from fleetridge_server.settings import Settings

_DAY_S = 24 * 3600

# Often enough to see that it goes on.
_PRINT_EVERY_S = 2.0

_HEADS = (Column("table", align="left"), Column("rows"), Column("copied"))


def migrate(options: argparse.Namespace, settings: Settings) -> int:
    """Bring the database up to date, or to another schema; exit code."""
    if options.to is None:
        schema.migrate(settings.database_url)
        print(f"{shown_url(settings.database_url)} is up to date")
    else:
        schema.move(settings.database_url, options.to)
        print(f"{shown_url(settings.database_url)} has schema {options.to}")
    return 0


def retention(options: argparse.Namespace, settings: Settings) -> int:
    """Drop documents of old reports, once or every day; exit code."""
    if settings.documents_days is None:
        options.usage("say with --documents-days N for how many days documents are kept")
    kept = timedelta(days=settings.documents_days or 0)
    with closing(open_database(settings.database_url, statement_timeout_ms=0)) as database, suppress(KeyboardInterrupt):
        schema.check_schema(database.engine)
        while True:  # interrupted, nothing is half done
            print(dropped_message(drop_old(database, kept, datetime.now(timezone.utc))), flush=True)
            if options.once:
                break
            time.sleep(_DAY_S)
    return 0


def backup(options: argparse.Namespace, settings: Settings) -> int:
    """Write a SQLite database to a file; exit code."""
    made = back_up(settings.database_url, options.file, on_progress=_Progress().pages)
    print(f"{made.path}: {made.size_bytes} bytes, checked; {made.rows.get('reports', 0)} reports")
    return 0


def copy(options: argparse.Namespace, settings: Settings) -> int:
    """Copy everything into another database; exit code."""
    copied = copy_database(settings.database_url, options.to, _Progress().rows)
    print(text_table(_HEADS, [(table.name, str(table.source_rows), str(table.target_rows)) for table in copied]))
    print(f"{shown_url(options.to)} has everything; start the servers with DATABASE_URL set to it")
    return 0


@dataclass
class _Progress:
    """Says on standard error how far the work is: whenever something begins, and every few seconds."""

    _what: str = ""
    _printed_at: float = field(default=0.0)

    def rows(self, table: str, done: int, total: int) -> None:
        """Say how many rows of a table are copied."""
        self._print(table, f"{table}: {done} of {total} rows")

    def pages(self, done: int, total: int) -> None:
        """Pages of a file."""
        self._print("pages", f"{done} of {total} pages")

    def _print(self, what: str, line: str) -> None:
        now = time.monotonic()
        if what != self._what or now - self._printed_at >= _PRINT_EVERY_S:
            self._what, self._printed_at = what, now
            print(line, file=sys.stderr, flush=True)
