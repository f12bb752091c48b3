"""
What the pages of the dashboard weigh, and how long the server takes for them.

    python bench/pages.py [--gpus N ...] [--repeats N]

Stores and evaluates a simulated fleet with four roofs in a SQLite file, then asks for each page through the real
application, without a network. Times are processor time: "all" of the whole answer, what the server had to know
included, "render" of the page alone: view model, charts and template. Sizes are those of the HTML and of its gzip.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import httpx
from evaluation_cost import fleet_reports
from sqlalchemy import select
from stored_fleet import store_fleet

from fleetridge.text_table import Column, text_table
from fleetridge_server.app import create_app
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.schema import migrate
from fleetridge_server.db.tables import Gpu
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.intake.hardware import refresh_measured_at
from fleetridge_server.settings import Settings
from fleetridge_server.web import alerts, compare, device, fleet, gpu, nodes

_P = ParamSpec("_P")
_T = TypeVar("_T")

_MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
_ROOFS = 4
_REPORTS = 5
_ROWS_AT_ONCE = 500
_KB = 1000
_PAGES = {
    "fleet": "/?cluster=simulated",
    "device": "/ui/devices/{slug}?cluster=simulated",
    "device, outliers": "/ui/devices/{slug}?cluster=simulated&verdict=outlier",
    "compare": "/ui/devices/{slug}/compare?cluster=simulated",
    "gpu": "/ui/gpus/{gpu}?cluster=simulated",
    "nodes": "/ui/nodes?cluster=simulated",
    "alerts": "/ui/alerts?cluster=simulated",
}
# What makes a page from answers that are there.
_RENDERING = {
    "fleet_page",
    "subject_of",
    "device_page",
    "compare_page",
    "gpu_page",
    "nodes_page",
    "alerts_page",
    "html",
}

_COLUMNS = (
    Column("page", align="left"),
    Column("gpus"),
    Column("all", "ms"),
    Column("render", "ms"),
    Column("HTML", "KB"),
    Column("gzip", "KB"),
)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Weighs and times the pages of the dashboard.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[64, 10_000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for gpus in options.gpus:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'bench.db'}"
            rows += asyncio.run(_measured(url, gpus, options.repeats, _filled(url, gpus)))
    print(text_table(_COLUMNS, rows, title=f"pages of a fleet with {_ROOFS} roofs, median of {options.repeats}"))


def _filled(url: str, gpus: int) -> dict[str, str]:
    """Store and evaluate a fleet; names for the addresses of its pages."""
    migrate(url)
    database = open_database(url, statement_timeout_ms=0)
    device_group = store_fleet(database, f"Simulated {gpus}", fleet_reports(gpus, _ROOFS, _REPORTS))
    for chunk in _chunks(database):
        with database.writing() as session:
            refresh_measured_at(session, chunk)
    database.analyze()
    as_of = _MONDAY + timedelta(days=_REPORTS)
    Evaluator(database, now=lambda: as_of).evaluate_now(device_group)
    with database.reading() as session:
        first = session.scalars(select(Gpu.identity).order_by(Gpu.id)).first()
    database.close()
    return {"slug": f"simulated-{gpus}", "gpu": str(first)}


def _chunks(database: Database) -> Iterator[list[int]]:
    with database.reading() as session:
        rows = iter(session.scalars(select(Gpu.id)).all())
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):
        yield chunk


async def _measured(url: str, gpus: int, repeats: int, names: dict[str, str]) -> list[list[str]]:
    app = create_app(Settings(database_url=url, trust_network=True, evaluate=False))
    rows = []
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://b") as client:
        for name, path in _PAGES.items():
            address = path.format(**names)
            content = (await client.get(address)).raise_for_status().content
            taken = [await _ms(client, address) for _ in range(repeats)]
            rendered = [await _render_ms(client, address) for _ in range(repeats)]
            sizes = (len(content), len(gzip.compress(content, 6)))
            rows.append(
                [
                    name,
                    str(gpus),
                    f"{statistics.median(taken):.0f}",
                    f"{statistics.median(rendered):.0f}",
                    *(f"{size / _KB:.1f}" for size in sizes),
                ]
            )
    return rows


async def _ms(client: httpx.AsyncClient, address: str) -> float:
    """Processor time of all threads, of which but the one that answers has nothing to do."""
    started = time.process_time()
    await client.get(address)
    return (time.process_time() - started) * 1000


async def _render_ms(client: httpx.AsyncClient, address: str) -> float:
    """Time in the functions that make the page, each with a clock around it."""
    spent: list[float] = []
    with ExitStack() as stack:
        for module in (fleet, device, compare, gpu, nodes, alerts):
            for name in _RENDERING & vars(module).keys():
                stack.enter_context(patch.object(module, name, _clocked(getattr(module, name), spent)))
        await client.get(address)
    return sum(spent) * 1000


def _clocked(function: Callable[_P, _T], spent: list[float]) -> Callable[_P, _T]:
    def timed(*arguments: _P.args, **named: _P.kwargs) -> _T:
        started = time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            spent.append(time.thread_time() - started)

    return timed


if __name__ == "__main__":
    main()
