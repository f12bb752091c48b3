"""
What a server takes in and how soon it answers meanwhile: a real process, real HTTP, on SQLite and on PostgreSQL.

    python bench/server.py [--gpus N ...] [--reports N] [--seconds S] [--clients N] [--servers N] [--only sqlite]
        [--mlflow ENVIRONMENT] [--json FILE]

For each size a fleet is written by SQL, with kept values, and evaluated. Then the server runs as `fleetridge-server
serve` runs it (on PostgreSQL as many as are asked for); client processes post full reports of the fleet's own gpus, a
node's eight in a call, compressed, made before: first with nothing else to do, then while the fleet is evaluated and
one more client asks for pages, whose times alone were taken before. The profile samples the server's threads in the
first part: which part of the work they were seen in. Processor time of the steps of examining and storing is measured
beside it, in this process and one call after the other. With `--mlflow` the same reports are then logged by as many
clients in an MLflow server on the same kind of database. The same machine makes the load, so compare what one run
says, and processor time rather than reports a second where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psycopg

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from mlflow_load import Logged, logged
from processes import cpu_s, parent_of
from server_calls import calls_in, post, write_calls
from server_load import DEVICE, fill
from server_profile import sampled_parts, step_times_ms

from fleetridge.text_table import Column, text_table
from fleetridge_server.serving import serve
from fleetridge_server.settings import Settings
from fleetridge_server.store.schema import migrate
from support.databases import PostgresDatabases
from support.postgres import own_server

_PAGES = {
    "ridge": f"/devices/{DEVICE}/ridge?limit=50&cluster=simulated",
    "fleet": "/fleet?cluster=simulated",
    "history": "/gpus/{gpu}/history?cluster=simulated",
    "devices": "/devices?cluster=simulated",
}
_QUIET_ROUNDS = 5
_START_S = 120
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
        cpu_ms: processor time for each of them: of the servers, of the database's processes (0 on SQLite, which has
            none), of the clients.
        parts: share of the samples of busy threads in each part of the work, with nothing else to do.
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
    parts: dict[str, float]
    steps_ms: dict[str, float]
    quiet: dict[str, Times]
    busy: dict[str, Times]
    mlflow: Logged | None = None


def main() -> None:
    """Measure, and print tables."""
    options = _options()
    if options.serve:
        _serve(options.serve, options.profile, evaluate=options.evaluate)
        return
    if options.post:
        post(options.post, options.bodies, options.seconds)
        return
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
    parser.add_argument("--clients", type=int, default=4, help="processes that post")
    parser.add_argument("--servers", type=int, default=1, help="processes that serve; on PostgreSQL alone")
    parser.add_argument("--mlflow", type=Path, metavar="ENVIRONMENT", help="folder of a Python environment that has it")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--json", type=Path, metavar="FILE")
    for inner in ("--serve", "--post"):
        parser.add_argument(inner, help=argparse.SUPPRESS)
    parser.add_argument("--evaluate", action="store_true", help=argparse.SUPPRESS)
    for inner in ("--profile", "--bodies"):
        parser.add_argument(inner, type=Path, help=argparse.SUPPRESS)
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
        profile = Path(folder) / "profile.json"
        load = os.getloadavg()[0]
        with _running(url, servers, profile, evaluate=False) as started:
            before = _cpu_s(url, started)
            alone = _told(_posting(started, first, options.seconds))
            spent = {part: own - before[part] for part, own in _cpu_s(url, started).items()}
        parts = json.loads(profile.read_text(encoding="utf-8"))
        with _running(url, servers, profile, evaluate=True) as started:
            quiet = _asked(started[0].address, gpu_id, until=None)
            posting = _posting(started, second, options.seconds)
            busy = _asked(started[0].address, gpu_id, until=time.monotonic() + options.seconds)
            beside = _told(posting)
        steps_ms = step_times_ms(url, list(calls_in(second[0]))[-_STEP_CALLS:])
        mlflow = options.mlflow and logged(options.mlflow, _address_for_others(other), first, options.seconds)
    reports = max(1.0, sum(own["taken"] for own in alone))
    spent["clients"] = sum(own["client_cpu_s"] for own in alone)
    return Served(
        database=name,
        gpus=gpus,
        servers=servers,
        load=load,
        reports_per_s=_rate(alone),
        reports_per_s_beside=_rate(beside),
        cpu_ms={part: own / reports * 1e3 for part, own in spent.items()},
        parts=parts,
        steps_ms=steps_ms,
        quiet=quiet,
        busy=busy,
        mlflow=mlflow,
    )


@dataclass(frozen=True)
class _Server:
    address: str
    pid: int


@contextmanager
def _running(url: str, servers: int, profile: Path, *, evaluate: bool) -> Iterator[list[_Server]]:
    command = [sys.executable, __file__, "--serve", url, "--profile", str(profile)]
    command += ["--evaluate"] if evaluate else []
    with ExitStack() as ending:
        started = []
        for _ in range(servers):
            server = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))  # noqa: S603 # this file
            ending.callback(server.send_signal, signal.SIGTERM)
            assert server.stdout is not None  # noqa: S101 # a pipe
            started.append(_Server(server.stdout.readline().strip(), server.pid))
        yield started


def _serve(url: str, profile: Path, *, evaluate: bool) -> None:
    with sampled_parts(profile):
        settings = Settings(database_url=url, port=0, evaluate=evaluate)
        serve(settings, on_ready=lambda address: print(address, flush=True))


def _posting(servers: Sequence[_Server], bodies: Sequence[Path], seconds: float) -> list[subprocess.Popen[str]]:
    """Clients that have begun to post, each to one of the servers."""
    clients = []
    for number, own in enumerate(bodies):
        address = servers[number % len(servers)].address
        command = [sys.executable, __file__, "--post", address, "--bodies", str(own), "--seconds", str(seconds)]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))  # noqa: S603 # this file
    return clients


def _told(clients: Sequence[subprocess.Popen[str]]) -> list[dict[str, float]]:
    """What clients say in the end."""
    return [json.loads(client.communicate()[0]) for client in clients]


def _rate(clients: Sequence[dict[str, float]]) -> float:
    """Reports a second that clients had acknowledged."""
    return sum(own["taken"] for own in clients) / max(own["seconds"] for own in clients)


def _cpu_s(url: str, servers: Sequence[_Server]) -> dict[str, float]:
    """Processor time that the servers have used, and the database's processes."""
    spent = {"server": sum(cpu_s(server.pid) for server in servers), "database": 0.0}
    if not url.startswith("sqlite"):
        with psycopg.connect(_address_for_others(url)) as connection:
            spent["database"] = cpu_s(parent_of(connection.info.backend_pid))
    return spent


def _address_for_others(url: str) -> str:
    """Address of a database without the name of our driver."""
    return url.replace("postgresql+psycopg:", "postgresql:")


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
        f"{served.reports_per_s:.0f} reports/s ({served.reports_per_s_beside:.0f} beside evaluation and pages); one "
        f"second of a server's processor time is enough for {1e3 / served.cpu_ms['server']:.0f}"
    )
    print("processor, ms a report: " + ", ".join(f"{part} {ms:.2f}" for part, ms in served.cpu_ms.items()))
    if served.mlflow is not None:
        _show_ratio(served, served.mlflow)
    shares = sorted(served.parts.items(), key=lambda item: -item[1])
    print("; ".join(f"{part} {share:.0%}" for part, share in shares))
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
    rate, cpu = served.reports_per_s / mlflow.runs_per_s, mlflow.cpu_ms_per_run / served.cpu_ms["server"]
    print(
        f"MLflow {mlflow.version}: {mlflow.runs_per_s:.1f} runs/s, {mlflow.cpu_ms_per_run:.0f} ms of processor a run; "
        f"fleetridge takes {rate:.0f} times as many a second, a report for a {cpu:.0f}th of the processor"
    )


if __name__ == "__main__":
    main()
