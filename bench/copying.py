"""
How fast `fleetridge-server copy` moves a database from SQLite to PostgreSQL and back.

    python bench/copying.py [--reports 2000] [--points 60] [--json FILE]

Reports of a simulated fleet of full length are stored by the server's own ingest and evaluated; PostgreSQL is one of
its own. Both targets have their tables. Processor time is that of the copying process alone; the database's own is in
the time on the clock.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from sqlalchemy import select
from storage import full_report

from fleetridge.report import Report
from fleetridge.text_table import Column, text_table
from fleetridge_server.db.database import open_database
from fleetridge_server.db.schema import migrate
from fleetridge_server.db.tables import Device
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from fleetridge_server.ops.copy import copy_database
from fleetridge_server.simulate.plan import Ask, plan_of, product_named
from fleetridge_server.simulate.wire import node_reports
from fleetridge_server.verdicts.series import DeviceGroup
from support.databases import PostgresDatabases
from support.postgres import own_server

_GPUS = 40
_REPORTS_OF_CALL = 40
_UNTIL = datetime(2026, 11, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Copied:
    """One copy: rows of all tables, seconds on the clock and of this process."""

    way: str
    reports: int
    rows: int
    elapsed_s: float
    cpu_s: float


def main() -> None:
    """Copy there and back, and print a table."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder, own_server() as server:
        first, last = (f"sqlite:///{Path(folder) / name}" for name in ("first.db", "last.db"))
        reports = _fill(first, options.reports, options.points)
        between = PostgresDatabases(server).create(migrated=True)
        migrate(last)
        outcomes = [
            _timed("SQLite to PostgreSQL", first, between, reports),
            _timed("PostgreSQL to SQLite", between, last, reports),
        ]
    _show(outcomes)
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=2), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed of a move to another database.")
    parser.add_argument("--reports", type=int, default=2000)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _fill(url: str, reports: int, points: int) -> int:
    """Store reports and evaluate them once; how many."""
    silicon = product_named("H200")
    if silicon is None:
        raise SystemExit("the simulator has no H200 any more")
    plan = plan_of(Ask(silicon, _GPUS, reports // _GPUS, seed=1, noise=0.005, until=_UNTIL), [])
    found = [report for node in range(plan.ask.nodes) for report in node_reports(plan, node)]
    migrate(url)
    with closing(open_database(url, statement_timeout_ms=0)) as database:
        for start in range(0, len(found), _REPORTS_OF_CALL):
            call = [_accepted(full_report(report, points)) for report in found[start : start + _REPORTS_OF_CALL]]
            write_reports(database, call)
        with database.reading() as session:
            device_group = DeviceGroup(session.scalars(select(Device.id)).one(), simulated=True)
        Evaluator(database, now=lambda: _UNTIL).evaluate_now(device_group)
    return len(found)


def _accepted(report: Report) -> Accepted:
    item = examined(report.model_dump(mode="json"), sent_at=None, received_at=report.measured_to or _UNTIL)
    if not isinstance(item, Accepted):
        raise SystemExit(f"the server refuses such a report: {item.errors}")
    return item


def _timed(way: str, source: str, target: str, reports: int) -> Copied:
    elapsed_s, cpu_s = time.perf_counter(), time.process_time()
    tables = copy_database(source, target, lambda _table, _done, _total: None)
    elapsed_s, cpu_s = time.perf_counter() - elapsed_s, time.process_time() - cpu_s
    return Copied(way, reports, sum(table.source_rows for table in tables), elapsed_s, cpu_s)


def _show(outcomes: list[Copied]) -> None:
    heads = [Column("way", align="left"), *map(Column, ("reports", "rows", "s", "CPU s", "rows/s", "rows/CPU s"))]
    rows = [
        [
            one.way,
            f"{one.reports:,}",
            f"{one.rows:,}",
            f"{one.elapsed_s:.1f}",
            f"{one.cpu_s:.1f}",
            f"{one.rows / one.elapsed_s:,.0f}",
            f"{one.rows / one.cpu_s:,.0f}",
        ]
        for one in outcomes
    ]
    print(text_table(heads, rows))


if __name__ == "__main__":
    main()
