"""The commands that read a CSV file: `import` of measurements, `inventory` of what is expected."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from fleetridge.quantities import MISSING
from fleetridge.report.origin import DEFAULT_CLUSTER
from fleetridge.text_table import Column, text_table
from fleetridge_server.csv_import.inventory import BadInventoryError, expectations
from fleetridge_server.csv_import.lines import BadRow
from fleetridge_server.csv_import.reports import Import, Tally
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.schema import check_schema
from fleetridge_server.engine.wording import counted
from fleetridge_server.fleet.expected import ExpectedGpu, replace_inventory, shown_inventory
from fleetridge_server.intake.store import LostRaceError
from fleetridge_server.settings import Settings

# A screen of faults; who has more made the same one on every line.
_FAULTS_SHOWN = 20

_HEADS = (
    Column("cluster", align="left"), Column("node", align="left"), Column("device", align="left"), Column("gpus"),
    Column("gpu", align="left"),
)  # fmt: skip


def inventory(options: argparse.Namespace, settings: Settings) -> int:
    """Read what is expected from a file, or show it; exit code."""
    if options.file is None and not options.show:
        options.usage("name a FILE to read, or --show what was read before")
    with closing(open_database(settings.database_url)) as database:
        check_schema(database.engine)
        if options.file is not None:
            try:
                found = _read(options.file, options.cluster or DEFAULT_CLUSTER)
            except BadInventoryError as error:
                _say_bad(error)
                return 1
            _replace(database, found)
        if options.show:
            _show(database, options.cluster)
    return 0


def _read(file: Path, cluster: str) -> Mapping[str, list[ExpectedGpu]]:
    # Bytes that are not UTF-8 become surrogates, which make their own row a bad one and no other.
    with file.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        return expectations(lines, cluster)


def _replace(database: Database, found: Mapping[str, Sequence[ExpectedGpu]]) -> None:
    with database.writing() as session:
        for cluster, entries in found.items():
            replace_inventory(session, cluster, entries, datetime.now(timezone.utc))
    for cluster, entries in found.items():
        nodes = {entry.node for entry in entries}
        expected = f"{counted(len(nodes), 'node')} expected, {counted(_gpus(entries), 'gpu')}"
        print(f"cluster {cluster}: {expected if nodes else 'nothing is expected any more'}")


def _gpus(entries: Sequence[ExpectedGpu]) -> int:
    """Gpus that some lines expect; a count on a node includes those named."""
    named: dict[tuple[str, str | None], int] = {}
    on_nodes: dict[tuple[str, str | None], int] = {}
    for entry in entries:
        key = (entry.node, entry.device)
        if entry.gpu is None:
            on_nodes[key] = entry.expected_gpus or 0
        else:
            named[key] = named.get(key, 0) + 1
    return sum(max(named.get(key, 0), on_nodes.get(key, 0)) for key in named.keys() | on_nodes.keys())


def _show(database: Database, cluster: str | None) -> None:
    with database.reading() as session:
        rows = [
            (line.cluster, line.node, device or MISSING, str(line.expected_gpus or MISSING), line.gpu or MISSING)
            for line, device in shown_inventory(session, cluster)
        ]
    print(text_table(_HEADS, rows) if rows else "Nothing is expected; name a FILE with the nodes that there should be.")


def _say_bad(error: BadInventoryError) -> None:
    for row in error.bad[:_FAULTS_SHOWN]:
        _say_bad_row(row)
    if len(error.bad) > _FAULTS_SHOWN:
        print(f"… and {len(error.bad) - _FAULTS_SHOWN} more", file=sys.stderr)
    print(f"fleetridge-server: {error}", file=sys.stderr)


def import_reports(options: argparse.Namespace, settings: Settings) -> int:
    """Take measurements from a file; exit code."""
    with closing(open_database(settings.database_url)) as database:
        check_schema(database.engine)
        job = Import(database, options.cluster, on_bad=_say_bad_row)
        try:
            # Bytes that are not UTF-8 become surrogates, which make their own row a bad one and no other.
            with options.file.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
                job.run(lines)
            database.analyze()
        except (DBAPIError, LostRaceError):
            print(f"stopped: {_counts(job.tally)}; import the file again, nothing counts twice")
            raise
    print(_counts(job.tally))
    return 1 if job.tally.bad else 0


def _counts(tally: Tally) -> str:
    return (
        f"{tally.rows} rows read: {tally.created} created, {tally.repeated} repeated in the file, "
        f"{tally.already_stored} already stored, {tally.bad} bad"
    )


def _say_bad_row(row: BadRow) -> None:
    for error in row.errors:
        print(f"line {row.line}: {f'{error.field}: ' if error.field else ''}{error.problem}", file=sys.stderr)
