"""
How many bytes a report takes in the database, indexes included, and what two years of a fleet amount to.

    python bench/storage.py [--gpus 64] [--days 40] [--points 60] [--postgres URL] [--json FILE]

Reports of a simulated fleet, with as many points as a standard sweep has, are stored by the server's own ingest, in
calls of one node, on SQLite and on PostgreSQL (its own, or the empty database that --postgres names). What the second
half of the days adds, by report, is what a report takes; an evaluation at the end adds what each gpu takes once.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from sqlalchemy import make_url, select, text

from fleetridge.arithmetic_intensity import gemm_flops
from fleetridge.report import GemmPoint, Report
from fleetridge.text_table import Column, text_table
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.schema import METADATA, migrate
from fleetridge_server.db.tables import Device
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from fleetridge_server.simulate.plan import Ask, Plan, plan_of, product_named
from fleetridge_server.simulate.wire import node_reports
from fleetridge_server.verdicts.series import DeviceGroup
from support.databases import PostgresDatabases
from support.postgres import own_server

_UNTIL = datetime(2026, 11, 1, tzinfo=timezone.utc)
_TERA = 1e12
_S_IN_MS = 1e3
_SHAPES = (1, 8, 32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

# Tables with one row or some for each gpu, whatever it reports.
_OF_GPU = ("gpus", "gpu_histories", "gpu_verdicts")
_OF_REPORT = ("reports", "roofs", "documents")

_FLEET_GPUS = 100_000
_FLEET_DAYS = 730
_DOCUMENTS_DAYS = 90
_MONTH_DAYS = 31
_GB = 1e9

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Stored:
    """
    What reports take on one database, in bytes with indexes.

    Attributes:
        version: of the database.
        sent_bytes, packed_bytes: of a report as JSON, and of its document as it is stored; means.
        by_report: of each table, growth for each report.
        by_gpu: of each table, for each gpu.
    """

    database: str
    version: str
    reports: int
    sent_bytes: float
    packed_bytes: float
    by_report: dict[str, float]
    by_gpu: dict[str, float]

    def fleet_gb(self, documents_days: int) -> float:
        """Two years of the fleet, a report of each gpu a day, with documents of the last days only."""
        summaries = sum(own for table, own in self.by_report.items() if table != "documents")
        documents = self.by_report["documents"] * min(documents_days, _FLEET_DAYS)
        return _FLEET_GPUS * (summaries * _FLEET_DAYS + documents + sum(self.by_gpu.values())) / _GB


def main() -> None:
    """Measure, and print two tables."""
    options = _options()
    outcomes = []
    for name, database in _databases(options.postgres):
        outcomes.append(_measured(name, database, options))
    _show(outcomes)
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=2), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Bytes of a report in the database.")
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--days", type=int, default=40, help="a report of each gpu a day")
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--postgres", metavar="URL", help="an empty database")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _databases(postgres: str | None) -> Iterator[tuple[str, Database]]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _opened("SQLite", f"sqlite:///{Path(folder) / 'bench.db'}")
    with _postgres(postgres) as url:
        yield from _opened("PostgreSQL", url)


def _opened(name: str, url: str) -> Iterator[tuple[str, Database]]:
    migrate(url)
    database = open_database(url, statement_timeout_ms=0)
    yield name, database
    database.close()


@contextmanager
def _postgres(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with own_server() as server:
        databases = PostgresDatabases(server)
        made = databases.create(migrated=True)
        yield made
        databases.drop(made)


def _measured(name: str, database: Database, options: argparse.Namespace) -> Stored:
    silicon = product_named("H200")
    if silicon is None:
        raise SystemExit("the simulator has no H200 any more")
    plan = plan_of(Ask(silicon, options.gpus, options.days, seed=1, noise=0.005, until=_UNTIL), [])
    sent: list[int] = []
    packed: list[int] = []

    def store(days: range) -> None:
        for call in _calls(plan, days, options.points):
            sent.extend(len(json.dumps(item.report.model_dump(mode="json", exclude_unset=True))) for item in call)
            packed.extend(len(item.body) for item in call)
            if set(write_reports(database, call)) != {"created"}:
                raise SystemExit("the database has these reports already; name an empty one")

    sizes_of, version = _sizes(database)
    store(range(options.days // 2))
    before, stored_before = sizes_of(), len(sent)
    store(range(options.days // 2, options.days))
    added = len(sent) - stored_before
    by_report = {table: (own - before[table]) / added for table, own in sizes_of().items() if table in _OF_REPORT}
    _evaluate(database)
    by_gpu = {table: own / options.gpus for table, own in sizes_of().items() if table in _OF_GPU}
    return Stored(name, version, len(sent), _mean(sent), _mean(packed), by_report, by_gpu)


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def _calls(plan: Plan, days: range, points: int) -> Iterator[list[Accepted]]:
    """Reports of each node and day, which arrive when they were measured."""
    for node in range(plan.ask.nodes):
        by_run: dict[object, list[Report]] = {}
        for report in node_reports(plan, node):
            by_run.setdefault(report.run.run_id, []).append(report)
        for run in list(by_run.values())[days.start : days.stop]:
            yield [_accepted(full_report(report, points)) for report in run]


def full_report(report: Report, points: int) -> Report:
    """The report with products of further shapes, whose times scatter as times do."""
    noise = random.Random(str(report.report_id))  # noqa: S311 # made-up measurements
    more = []
    for number in range(points - len(report.points)):
        m, k, n = _SHAPES[number % len(_SHAPES)], 4096, (6144, 4096, 28672, 14336)[number // len(_SHAPES) % 4]
        ms = gemm_flops(m, n, k) / (800 * _TERA) * _S_IN_MS * noise.uniform(1.0, 1.3) + 0.003
        more.append(
            GemmPoint(
                kind="gemm", dtype="bfloat16", out_dtype="bfloat16", label="w_qkv", M=m, K=k, N=n, ms=ms,
                spread=round(noise.uniform(0.0005, 0.02), 6), reps=noise.randrange(25, 4000), regime="burst", l2="cold",
                sm_clock_mhz=noise.randrange(1300, 1980), power_w=round(noise.uniform(300, 700), 1),
            )
        )  # fmt: skip
    return report.model_copy(update={"points": (*report.points, *more)})


def _accepted(report: Report) -> Accepted:
    item = examined(report.model_dump(mode="json"), sent_at=None, received_at=report.measured_to or _UNTIL)
    if not isinstance(item, Accepted):
        raise SystemExit(f"the server refuses such a report: {item.errors}")
    return item


def _evaluate(database: Database) -> None:
    with database.reading() as session:
        device_group = DeviceGroup(session.scalars(select(Device.id)).one(), simulated=True)
    Evaluator(database, now=lambda: _UNTIL).evaluate_now(device_group)


def _sizes(database: Database) -> tuple[Callable[[], Sizes], str]:
    """What says how many bytes each table has with its indexes, and the database's version."""
    if database.data_file is not None:
        return lambda: _sqlite_sizes(database), f"SQLite {sqlite3.sqlite_version}"
    with database.engine.connect() as connection:
        version = connection.exec_driver_sql("SHOW server_version").scalar_one().partition(" ")[0]
    return lambda: _postgres_sizes(database), f"PostgreSQL {version}"


def _sqlite_sizes(database: Database) -> Sizes:
    path = make_url(str(database.engine.url)).database or ""
    query = (
        "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master ON sqlite_master.name = dbstat.name "
        "WHERE aggregate = TRUE GROUP BY tbl_name"
    )
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute(query).fetchall())


def _postgres_sizes(database: Database) -> Sizes:
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
        query = text("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(to_regclass(:name))")
        plain = text("SELECT pg_total_relation_size(to_regclass(:name))")
        return {
            name: int(connection.scalar(query, {"name": name}) or connection.scalar(plain, {"name": name}))
            for name in METADATA.tables
        }


def _show(outcomes: list[Stored]) -> None:
    tables = [*_OF_REPORT, "a report", *_OF_GPU, "a gpu"]
    heads = [Column("bytes", align="left"), *(Column(outcome.version) for outcome in outcomes)]
    rows = [
        ["a report as JSON", *(f"{outcome.sent_bytes:,.0f}" for outcome in outcomes)],
        ["its document, packed", *(f"{outcome.packed_bytes:,.0f}" for outcome in outcomes)],
        *([table, *(f"{_bytes(outcome, table):,.0f}" for outcome in outcomes)] for table in tables),
    ]
    print(text_table(heads, rows))
    print()
    print(f"{_FLEET_GPUS:,} gpus, a report of each a day, {_FLEET_DAYS} days:")
    kept = {"all documents": _FLEET_DAYS, f"documents of {_DOCUMENTS_DAYS} days": _DOCUMENTS_DAYS, "no documents": 0}
    kept[f"documents of {_DOCUMENTS_DAYS} days, by whole months"] = _DOCUMENTS_DAYS + _MONTH_DAYS
    print(
        text_table(
            [Column("GB", align="left"), *heads[1:]],
            [[what, *(f"{outcome.fleet_gb(days):,.0f}" for outcome in outcomes)] for what, days in kept.items()],
        )
    )


def _bytes(outcome: Stored, table: str) -> float:
    if table == "a report":
        return sum(outcome.by_report.values())
    if table == "a gpu":
        return sum(outcome.by_gpu.values())
    return {**outcome.by_report, **outcome.by_gpu}[table]


if __name__ == "__main__":
    main()
