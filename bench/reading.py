"""
How long the pages of a large fleet take, on SQLite and on PostgreSQL.

    python bench/reading.py --gpus 2000 --postgres postgresql://user:password@host/an_empty_database

Fills an empty database with a fleet of one device (some minutes for each thousand gpus on slow machines), then asks for
each page several times through the real application, without a network. The PostgreSQL database is left as it is then.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from fleetridge.text_table import Column, text_table
from fleetridge_server.app import create_app
from fleetridge_server.ingest.intake import Accepted, examined
from fleetridge_server.settings import Settings
from fleetridge_server.store.database import Database, open_database
from fleetridge_server.store.schema import migrate
from fleetridge_server.store.writing import write_reports

_FIRST = datetime(2026, 1, 5, 2, tzinfo=timezone.utc)
_GPUS_PER_NODE = 8
_CALL_REPORTS = 200
_REPEATS = 3
_DTYPES = ("bfloat16", "float16", "tf32", "int8")
_PAGES = {
    "devices": "/devices",
    "ridge": "/devices/h200/ridge",
    "ridge, 1000 gpus a page": "/devices/h200/ridge?limit=1000",
    "ridge since the middle": "/devices/h200/ridge?since={middle}",
    "ridge as of the middle": "/devices/h200/ridge?as_of={middle}",
    "devices as of the middle": "/devices?as_of={middle}",
    "gpu": "/gpus/GPU-000001",
    "gpu as of the middle": "/gpus/GPU-000001?as_of={middle}",
    "node": "/nodes/node-00000",
    "readyz": "/readyz",
}


def main() -> None:
    """Measure, and print a table."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        urls = {"SQLite": f"sqlite:///{Path(folder) / 'bench.db'}"}
        if options.postgres:
            urls["PostgreSQL"] = options.postgres
        columns: dict[str, dict[str, float]] = {}
        for name, url in urls.items():
            filled_s = _filled(url, options)
            columns[name] = {"fill": filled_s} | asyncio.run(_page_times(url, options.reports))
    rows = [[page, *(f"{times[page]:.3f}" for times in columns.values())] for page in ("fill", *_PAGES)]
    title = f"{options.gpus} gpus x {options.reports} reports x {len(_DTYPES) + 2} roofs: seconds, median of {_REPEATS}"
    print(text_table((Column("page"), *(Column(name, "s") for name in columns)), rows, title=title))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times the pages of a large fleet.")
    parser.add_argument("--gpus", type=int, default=2000)
    parser.add_argument("--reports", type=int, default=10, help="of each gpu, a day apart")
    parser.add_argument("--postgres", metavar="URL", help="an empty PostgreSQL database")
    return parser.parse_args()


def _filled(url: str, options: argparse.Namespace) -> float:
    migrate(url)
    database = open_database(url)
    reports = _reports(options.gpus, options.reports)
    started = time.perf_counter()
    while batch := list(islice(reports, _CALL_REPORTS)):
        write_reports(database, [_accepted(report) for report in batch])
    filled_s = time.perf_counter() - started
    _analyze(database)
    database.close()
    return filled_s


def _accepted(report: dict[str, Any]) -> Accepted:
    item = examined(report, sent_at=None, received_at=datetime.now(timezone.utc))
    if not isinstance(item, Accepted):
        raise SystemExit(f"the bench makes reports that are refused: {item.errors}")
    return item


def _analyze(database: Database) -> None:
    with database.writing() as session:
        session.connection().exec_driver_sql("ANALYZE")


def _reports(gpus: int, days: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(1)  # noqa: S311 # no secret
    for day in range(days):
        moment = (_FIRST + timedelta(days=day)).isoformat()
        for gpu in range(gpus):
            yield {
                "schema_version": "1.0",
                "report_id": str(UUID(int=rng.getrandbits(128), version=4)),
                "measured_from": moment,
                "measured_to": moment,
                "run": {"run_id": str(UUID(int=day + 1)), "kind": "cron"},
                "outcome": "measured",
                "agent": {"version": "0.1.0", "protocol_version": 1, "method": "standard"},
                "node": {"cluster": "east", "name": f"node-{gpu // _GPUS_PER_NODE:05}"},
                "gpu": {
                    "uuid": f"GPU-{gpu:06}",
                    "index": gpu % _GPUS_PER_NODE,
                    "device": "NVIDIA H200",
                    "memory_bytes": 150754820096,
                    "sm_count": 132,
                },
                "roofs": list(_roofs(rng)),
            }


def _roofs(rng: random.Random) -> Iterator[dict[str, Any]]:
    for dtype in _DTYPES:
        yield _roof("compute", dtype, "gemm_reference", rng.gauss(800, 8), "TFLOP/s")
    yield _roof("compute", "bfloat16", "gemm_best", rng.gauss(820, 8), "TFLOP/s")
    yield _roof("memory", "float32", "read", rng.gauss(4400, 20), "GB/s")


def _roof(kind: str, dtype: str, kernel: str, value: float, unit: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "dtype": dtype,
        "regime": "burst",
        "level": "device",
        "kernel": kernel,
        "value": value,
        "unit": unit,
    }


async def _page_times(url: str, days: int) -> dict[str, float]:
    app = create_app(Settings(database_url=url))
    middle = (_FIRST + timedelta(days=days // 2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as client:  # noqa: S113 # slow pages are what is looked for
            return {page: await _median_s(client, address.format(middle=middle)) for page, address in _PAGES.items()}


async def _median_s(client: httpx.AsyncClient, address: str) -> float:
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        answer = await client.get(address)
        times.append(time.perf_counter() - started)
        answer.raise_for_status()
    return sorted(times)[_REPEATS // 2]


if __name__ == "__main__":
    main()
