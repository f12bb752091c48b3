"""
How long answers about a large fleet take, on SQLite and on PostgreSQL, and how that grows with the fleet.

    python bench/reading.py [--gpus N ...] [--reports N] [--only sqlite] [--folder DIR] [--json FILE]

For each size a fleet of one device is written by SQL (its newest three reports as the simulator makes them, older ones
as copies, documents for one gpu in a hundred), with kept values, and evaluated. Then every answer is asked for several
times through the real application, without a network and with nobody else there: by the clock, and as processor time of
this process (on SQLite all of it; on PostgreSQL the server's own is not in it). With a folder SQLite's files stay
there, and are used again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import httpx

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from stored_fleet import add_past, keep_newest, store_fleet

from fleetridge.text_table import Column, text_table
from fleetridge_server.app import create_app
from fleetridge_server.evaluating.evaluator import Evaluator
from fleetridge_server.settings import Settings
from fleetridge_server.simulated_fleet import Fault, FleetPlan, simulated_reports
from fleetridge_server.store.database import open_database
from fleetridge_server.store.schema import migrate
from support.databases import PostgresDatabases
from support.postgres import own_server

_DEVICE = "H200"
_NOISE = 0.005
_ONE_SLOW_IN = 100
_NEWEST = 3
_DOCUMENTS_OF_ONE_IN = 100
_SEED = 7
_ROUNDS = 30
_PAGES = {
    "ridge, first page": "/devices/h200/ridge?cluster=simulated",
    "ridge, a later page": "/devices/h200/ridge?cluster=simulated&after={after}",
    "ridge of outliers": "/devices/h200/ridge?cluster=simulated&verdict=outlier",
    "ridge of a node": "/devices/h200/ridge?cluster=simulated&node={node}",
    "devices": "/devices?cluster=simulated",
    "fleet": "/fleet?cluster=simulated",
    "gpu": "/gpus/{gpu}?cluster=simulated",
    "gpu's history": "/gpus/{gpu}/history?cluster=simulated",
}


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds of an answer: median and 95th percentile by the clock, and processor time of this process."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Read:
    """Times of one fleet's answers."""

    database: str
    gpus: int
    pages: dict[str, Took]


def main() -> None:
    """Measure, and print tables."""
    options = _options()
    found: list[Read] = []
    for name in ("SQLite", "PostgreSQL"):
        if options.only in (None, name.lower()):
            for gpus in options.gpus:
                with _database(name, gpus, options) as url:
                    found.append(Read(name, gpus, asyncio.run(_page_times(url))))
            _show([own for own in found if own.database == name])
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(own) for own in found], indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times answers about fleets of growing size.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--reports", type=int, default=30, help="of each gpu, a day apart")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--folder", type=Path, help="where SQLite's files stay")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the times here")
    return parser.parse_args()


@contextmanager
def _database(name: str, gpus: int, options: argparse.Namespace) -> Iterator[str]:
    """A filled database."""
    if name == "PostgreSQL":
        with own_server() as server:
            databases = PostgresDatabases(server)
            url = databases.create(migrated=True)
            _fill(url, gpus, options.reports)
            yield url
            databases.drop(url)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = (options.folder or Path(folder)) / f"reading-{gpus}.db"
        url, is_there = f"sqlite:///{file}", file.exists()
        if not is_there:
            migrate(url)
            _fill(url, gpus, options.reports)
        yield url


def _fill(url: str, gpus: int, reports: int) -> None:
    database = open_database(url, statement_timeout_ms=0)
    first = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=_NEWEST)
    faults = {position: Fault("silent", 0.08) for position in range(0, gpus, _ONE_SLOW_IN)}
    plan = FleetPlan(gpus=gpus, noise=_NOISE, faults=faults, spread=_NOISE, reports=_NEWEST)
    rng = random.Random(_SEED)  # noqa: S311 # made up
    population = store_fleet(database, _DEVICE, simulated_reports(plan, first, rng))
    database.analyze()
    keep_newest(database)
    Evaluator(database).continue_course(population)
    add_past(database, reports - _NEWEST, documents_of_one_in=_DOCUMENTS_OF_ONE_IN)
    database.analyze()
    database.close()


async def _page_times(url: str) -> dict[str, Took]:
    app = create_app(Settings(database_url=url, evaluate=False))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as client:  # noqa: S113 # slow pages are what is looked for
            first = (await client.get(_PAGES["ridge, first page"])).raise_for_status().json()
            known = {"after": first["next"], "gpu": first["gpus"][-1]["gpu_id"], "node": first["gpus"][-1]["node"]}
            return {page: await _took(client, address.format(**known)) for page, address in _PAGES.items()}


async def _took(client: httpx.AsyncClient, address: str) -> Took:
    times: list[tuple[float, float]] = []
    for _ in range(_ROUNDS):
        started, cpu_started = time.perf_counter(), time.process_time()
        answer = await client.get(address)
        times.append(((time.perf_counter() - started) * 1e3, (time.process_time() - cpu_started) * 1e3))
        answer.raise_for_status()
    clock = [ms for ms, _ in times]
    return Took(_share(clock, 0.5), _share(clock, 0.95), _share([ms for _, ms in times], 0.5))


def _share(took: Sequence[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(share * len(took)))]


def _show(found: Sequence[Read]) -> None:
    names = [f"{own.gpus:,}" for own in found]
    columns = [Column("answer", align="left")]
    columns += [Column(f"{name} p50", "ms") for name in names] + [Column("p95", "ms"), Column("cpu", "ms")]
    columns += [Column("growth"), Column("of cpu")]
    rows = [[page, *_cells([own.pages[page] for own in found])] for page in _PAGES]
    print(text_table(columns, rows, title=f"{found[0].database}; p95 and cpu of {names[-1]} gpus"), flush=True)


def _cells(took: Sequence[Took]) -> list[str]:
    first, last = took[0], took[-1]
    growth = (last.p50_ms / first.p50_ms, last.cpu_ms / first.cpu_ms)
    return [
        *(f"{own.p50_ms:.1f}" for own in took),
        f"{last.p95_ms:.1f}",
        f"{last.cpu_ms:.1f}",
        *(f"{own:.2f}" for own in growth),
    ]


if __name__ == "__main__":
    main()
