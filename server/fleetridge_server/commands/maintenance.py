"""The commands `retention`, `backup` and `copy` of `fleetridge-server`."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from fleetridge.text_table import Column, text_table

if TYPE_CHECKING:
    from fleetridge_server.commands.arguments import Commands
    from fleetridge_server.settings import Settings


_DAY_S = 24 * 3600

# Often enough to see that it goes on.
_PRINT_EVERY_S = 2.0

_HEADS = (Column("table", align="left"), Column("rows"), Column("copied"))


def add_maintenance(commands: Commands, database: argparse.ArgumentParser) -> None:
    """Add the commands to those of `fleetridge-server`."""
    retention = commands.add_parser(
        "retention",
        parents=[database],
        help="drop the documents of old reports, and keep what they say",
        description=(
            "Drops documents that are older than they are to be kept, now and once a day, beside servers that run. "
            "Reports, roofs and verdicts stay. On PostgreSQL documents go by whole months of arrival."
        ),
    )
    retention.add_argument(
        "--documents-days",
        type=int,
        metavar="N",
        help="days for which documents are kept (default: FLEETRIDGE_SERVER_DOCUMENTS_DAYS)",
    )
    retention.add_argument("--once", action="store_true", help="end after one round, as cron wants it")
    retention.set_defaults(command=_retention, usage=retention.error)

    backup = commands.add_parser(
        "backup",
        parents=[database],
        help="write a SQLite database, as it is now, to a file",
        description=(
            "Writes one state of a SQLite database to a file, while servers go on, and checks it. To restore, start a "
            "server on a copy of that file. For PostgreSQL use pg_dump."
        ),
    )
    backup.add_argument("file", type=Path, metavar="FILE", help="nothing may be there yet")
    backup.set_defaults(command=_backup)

    copying = commands.add_parser(
        "copy",
        parents=[database],
        help="copy everything into another database",
        description=(
            "Copies everything into an empty database, from SQLite to PostgreSQL or back, and compares the counts. "
            "Stop the servers first. Interrupted, the same command goes on."
        ),
    )
    copying.add_argument("--to", required=True, metavar="URL", help="sqlite:///FILE or postgresql://…, without data")
    copying.set_defaults(command=_copy)


def _retention(options: argparse.Namespace, settings: Settings) -> int:
    if settings.documents_days is None:
        options.usage("say with --documents-days N for how many days documents are kept")
    from fleetridge_server.db.database import open_database
    from fleetridge_server.db.schema import check_schema
    from fleetridge_server.ops.retention import drop_old, dropped_message

    kept = timedelta(days=settings.documents_days or 0)
    with closing(open_database(settings.database_url, statement_timeout_ms=0)) as database, suppress(KeyboardInterrupt):
        check_schema(database.engine)
        while True:  # interrupted, nothing is half done
            print(dropped_message(drop_old(database, kept, datetime.now(timezone.utc))), flush=True)
            if options.once:
                break
            time.sleep(_DAY_S)
    return 0


def _backup(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.ops.backup import back_up

    made = back_up(settings.database_url, options.file, on_progress=_Progress().pages)
    print(f"{made.path}: {made.size_bytes} bytes, checked; {made.rows.get('reports', 0)} reports")
    return 0


def _copy(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.db.database import shown_url
    from fleetridge_server.ops.copy import copy_database

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
