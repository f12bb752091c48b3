"""
What a server takes in and how soon it answers meanwhile: a real process, real HTTP, on SQLite and on PostgreSQL.

    python bench/server.py [--gpus N ...] [--reports N] [--seconds S] [--clients N] [--servers N] [--only sqlite]
        [--mlflow ENVIRONMENT] [--json FILE]

For each size a fleet is written by SQL, with kept values, and evaluated. Then the server runs as `fleetridge-server
serve` runs it (on PostgreSQL as many as are asked for); client processes post full reports of the fleet's own gpus, a
node's eight in a call, compressed, made before: first with nothing else to do, then while the fleet is evaluated and
one more client asks for pages, whose times alone were taken before. Processor time of the steps of examining and
storing is measured beside it, in this process and one call after the other. With `--mlflow` the same reports are then
logged by as many clients in an MLflow server on the same kind of database. The same machine makes the load, so compare
what one run says, and processor time rather than reports a second where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from mlflow_load import Logged, logged
from server_calls import calls_in, posting, rate, told, write_calls
from server_load import DEVICE, fill
from server_process import address_for_others, running, spent_s
from server_steps import step_times_ms

from fleetridge.text_table import Column, text_table
from fleetridge_server.db.schema import migrate
from support.databases import PostgresDatabases
from support.postgres import own_server

_PAGES = {
    "ridge": f"/devices/{DEVICE}/ridge?limit=50&cluster=simulated",
    "fleet": "/fleet?cluster=simulated",
    "history": "/gpus/{gpu}/history?cluster=simulated",
    "devices": "/devices?cluster=simulated",
}
_QUIET_ROUNDS = 20

# Of posting before anything is measured: by then the processes that take in reports have started.
_WARM_UP_S = 4
_PAGE_TIMEOUT_S = 60
_STEP_CALLS = 33


@dataclass(frozen=True)
class Times:
    """Milliseconds of a page: median and 95th percentile of so many answers."""

    p50_ms: float
    p95_ms: float
    answers: int


@dataclass(frozen=True)
class Served:
    """
    One server with one fleet.

    Attributes:
        servers: processes that took reports.
        load: other processes that wanted to run, before the run.
        reports_per_s: that were acknowledged, with nothing else to do.
        reports_per_s_beside: the same while the fleet was evaluated and a client asked for pages.
        cpu_ms: processor time for each of them: of the servers, of the processes that take in reports for them, of the
            database's processes (0 on SQLite, which has none), of the clients.
        steps_ms: processor time of each step of taking a report, in a thread by itself.
        quiet, busy: times of the pages alone and while reports came.
    """

    database: str
    gpus: int
    servers: int
    load: float
    reports_per_s: float
    reports_per_s_beside: float
    cpu_ms: dict[str, float]
    steps_ms: dict[str, float]
    quiet: dict[str, Times]
    busy: dict[str, Times]
    mlflow: Logged | None = None


def main() -> None:
    """Measure, and print tables."""
    options = _options()
    outcomes = []
    for gpus in options.gpus:
        for name, url, other in _databases(options.only):
            outcomes.append(_measured(name, url, gpus, options, other))
            _show(outcomes[-1])
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=2), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Reports a second, and times of pages meanwhile.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--reports", type=int, default=30, help="of each gpu that are there before")
    parser.add_argument("--seconds", type=float, default=20, help="of posting, for each server")
    parser.add_argument("--clients", type=int, default=16, help="processes that post")
    parser.add_argument("--servers", type=int, default=1, help="processes that serve; on PostgreSQL alone")
    parser.add_argument("--mlflow", type=Path, metavar="ENVIRONMENT", help="folder of a Python environment that has it")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _databases(only: str | None) -> Iterator[tuple[str, str, str]]:
    """Kind, address of a migrated database, and address of an empty one for somebody else."""
    if only != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'bench.db'}"
            migrate(url)
            yield "SQLite", url, f"sqlite:///{Path(folder) / 'other.db'}"
    if only != "sqlite":
        with own_server() as server:
            databases = PostgresDatabases(server)
            url, other = databases.create(migrated=True), databases.create(migrated=False)
            yield "PostgreSQL", url, other
            databases.drop(url)
            databases.drop(other)


def _measured(name: str, url: str, gpus: int, options: argparse.Namespace, other: str) -> Served:
    gpu_id = fill(url, gpus, options.reports)
    servers = options.servers if name == "PostgreSQL" else 1
    with tempfile.TemporaryDirectory() as folder:
        bodies = write_calls(Path(folder), url, 2 * options.clients, options.seconds)
        first, second = bodies[: options.clients], bodies[options.clients :]
        warm_up = _warm_up(Path(folder), url, options.clients)
        load = os.getloadavg()[0]
        with running(url, servers=servers) as started:
            told(posting([own.address for own in started], warm_up, _WARM_UP_S))
            before = spent_s(url, started)
            alone = told(posting([own.address for own in started], first, options.seconds))
            spent = {part: own - before[part] for part, own in spent_s(url, started).items()}
        with running(url, servers=servers, evaluating="as due") as started:
            quiet = _asked(started[0].address, gpu_id, until=None)
            clients = posting([own.address for own in started], second, options.seconds)
            busy = _asked(started[0].address, gpu_id, until=time.monotonic() + options.seconds)
            beside = told(clients)
        steps_ms = step_times_ms(url, list(calls_in(second[0]))[-_STEP_CALLS:])
        mlflow = options.mlflow and logged(options.mlflow, address_for_others(other), first, options.seconds)
    reports = max(1.0, sum(own["taken"] for own in alone))
    spent["clients"] = sum(own["client_cpu_s"] for own in alone)
    return Served(
        database=name,
        gpus=gpus,
        servers=servers,
        load=load,
        reports_per_s=rate(alone),
        reports_per_s_beside=rate(beside),
        cpu_ms={part: own / reports * 1e3 for part, own in spent.items()},
        steps_ms=steps_ms,
        quiet=quiet,
        busy=busy,
        mlflow=mlflow,
    )


def _warm_up(folder: Path, url: str, clients: int) -> list[Path]:
    own = folder / "warm-up"
    own.mkdir()
    return write_calls(own, url, clients, _WARM_UP_S)


def _asked(address: str, gpu_id: str, *, until: float | None) -> dict[str, Times]:
    """Times of the pages, asked for in turn: some rounds, or until then."""
    took: dict[str, list[float]] = {page: [] for page in _PAGES}
    with httpx.Client(base_url=address, timeout=_PAGE_TIMEOUT_S) as client:
        rounds = 0
        while rounds < _QUIET_ROUNDS if until is None else time.monotonic() < until:
            for page, path in _PAGES.items():
                started = time.perf_counter()
                client.get(path.format(gpu=gpu_id)).raise_for_status()
                took[page].append((time.perf_counter() - started) * 1e3)
            rounds += 1
    return {page: Times(_share(own, 0.5), _share(own, 0.95), len(own)) for page, own in took.items()}


def _share(took: Sequence[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(share * len(took)))]


def _show(served: Served) -> None:
    print(
        f"\n{served.database}, {served.gpus:,} gpus, {served.servers} servers (load {served.load:.1f} before): "
        f"{served.reports_per_s:.0f} reports/s ({served.reports_per_s_beside:.0f} beside evaluation and pages)"
    )
    print("processor, ms a report: " + ", ".join(f"{part} {ms:.2f}" for part, ms in served.cpu_ms.items()))
    if served.mlflow is not None:
        _show_ratio(served, served.mlflow)
    print("steps, ms a report: " + ", ".join(f"{step} {ms:.2f}" for step, ms in served.steps_ms.items()))
    columns = [Column("page", align="left"), Column("alone p50", "ms"), Column("p95", "ms")]
    columns += [Column("with ingest p50", "ms"), Column("p95", "ms"), Column("answers")]
    rows = [
        [
            page,
            *(f"{ms:.0f}" for own in (served.quiet[page], served.busy[page]) for ms in (own.p50_ms, own.p95_ms)),
            f"{served.busy[page].answers}",
        ]
        for page in _PAGES
    ]
    print(text_table(columns, rows), flush=True)


def _show_ratio(served: Served, mlflow: Logged) -> None:
    own_ms = served.cpu_ms["server"] + served.cpu_ms["workers"] + served.cpu_ms["database"]
    times, cpu = served.reports_per_s / mlflow.runs_per_s, mlflow.cpu_ms_per_run / own_ms
    print(
        f"MLflow {mlflow.version}: {mlflow.runs_per_s:.1f} runs/s, {mlflow.cpu_ms_per_run:.0f} ms of processor a run; "
        f"fleetridge takes {times:.0f} times as many a second, a report for a {cpu:.0f}th of the processor"
    )


if __name__ == "__main__":
    main()
