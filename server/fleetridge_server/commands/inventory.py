"""The command `fleetridge-server inventory`: what is expected, read from a file and shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from fleetridge.quantities import MISSING
from fleetridge.report.identity import DEFAULT_CLUSTER
from fleetridge.text_table import Column, text_table
from fleetridge_server.commands.arguments import cluster
from fleetridge_server.csv_import.inventory import COLUMNS, BadInventoryError, expectations
from fleetridge_server.engine.wording import counted

if TYPE_CHECKING:
    from fleetridge_server.commands.arguments import Commands
    from fleetridge_server.db.database import Database
    from fleetridge_server.fleet.expected import ExpectedGpu
    from fleetridge_server.settings import Settings


# A screen of faults; who has more made the same one on every line.
_FAULTS_TOLD = 20

_HEADS = (
    Column("cluster", align="left"), Column("node", align="left"), Column("device", align="left"), Column("gpus"),
    Column("gpu", align="left"),
)  # fmt: skip


def add_inventory(commands: Commands, database: argparse.ArgumentParser) -> None:
    """Add the command to those of `fleetridge-server`."""
    parser = commands.add_parser(
        "inventory",
        parents=[database],
        help="say which nodes and gpus there should be",
        description=(
            "Reads expected nodes and gpus from a CSV file in UTF-8 with a header, so that those which never report "
            f"are missed. Columns, in any order: {', '.join(COLUMNS)}; only node is needed. A line is about one gpu, "
            "or about a node and how many gpus it has. The file replaces all that was expected of its clusters; "
            "with a bad line nothing changes."
        ),
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE")
    parser.add_argument(
        "--cluster", type=cluster, help=f"cluster of lines that name none (default: {DEFAULT_CLUSTER}); shown alone"
    )
    parser.add_argument("--show", action="store_true", help="print what is expected")
    parser.set_defaults(command=_inventory, usage=parser.error)


def _inventory(options: argparse.Namespace, settings: Settings) -> int:
    if options.file is None and not options.show:
        options.usage("name a FILE to read, or --show what was read before")
    from fleetridge_server.db.database import open_database
    from fleetridge_server.db.schema import check_schema

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
    from fleetridge_server.fleet.expected import replace_inventory

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
    from fleetridge_server.fleet.expected import shown_inventory

    with database.reading() as session:
        rows = [
            (line.cluster, line.node, device or MISSING, str(line.expected_gpus or MISSING), line.gpu or MISSING)
            for line, device in shown_inventory(session, cluster)
        ]
    print(text_table(_HEADS, rows) if rows else "Nothing is expected; name a FILE with the nodes that there should be.")


def _say_bad(error: BadInventoryError) -> None:
    for row in error.bad[:_FAULTS_TOLD]:
        for fault in row.errors:
            print(f"line {row.line}: {f'{fault.field}: ' if fault.field else ''}{fault.problem}", file=sys.stderr)
    if len(error.bad) > _FAULTS_TOLD:
        print(f"… and {len(error.bad) - _FAULTS_TOLD} more", file=sys.stderr)
    print(f"fleetridge-server: {error}", file=sys.stderr)
