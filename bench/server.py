"""
What a server takes in and how soon it answers meanwhile: a real process, real HTTP, on SQLite and on PostgreSQL.

    python bench/server.py [--gpus N ...] [--reports N] [--seconds S] [--clients N] [--only sqlite] [--json FILE]

For each size a fleet is written by SQL, with kept values, and evaluated. Then the server runs as `fleetridge-server
serve` runs it; client processes post full reports of the same device, a node's eight in a call, compressed, made
before; and one more client asks for pages, first with nobody else there, then while reports come. The profile samples
the server's threads: which part of the work they were seen in. Processor time of the steps of examining and storing is
measured beside it, in this process and one call after the other. The same machine makes the load, so compare what one
run says, and processor time rather than reports a second where others use the machine.
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
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from server_load import DEVICE, fill, last_calls, post, write_calls
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
_SIGNAL_S = 20
_STEP_CALLS = 20


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
        load: other processes that wanted to run, before the run.
        reports_per_s: that were acknowledged.
        cpu_ms_per_report: processor time of the server's process, reading included.
        parts: share of the samples of busy threads in each part of the work.
        steps_ms: processor time of each step of taking a report, in a thread by itself.
        quiet, busy: times of the pages alone and while reports came.
    """

    database: str
    gpus: int
    load: float
    reports_per_s: float
    cpu_ms_per_report: float
    parts: dict[str, float]
    steps_ms: dict[str, float]
    quiet: dict[str, Times]
    busy: dict[str, Times]


def main() -> None:
    """Measure, and print tables."""
    options = _options()
    if options.serve:
        _serve(options.serve, options.profile)
        return
    if options.post:
        post(options.post, options.bodies, options.seconds)
        return
    outcomes = []
    for gpus in options.gpus:
        for name, url in _databases(options.only):
            outcomes.append(_measured(name, url, gpus, options))
            _show(outcomes[-1])
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=2), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Reports a second, and times of pages meanwhile.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--reports", type=int, default=30, help="of each gpu that are there before")
    parser.add_argument("--seconds", type=float, default=20, help="of posting, for each server")
    parser.add_argument("--clients", type=int, default=4, help="processes that post")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--json", type=Path, metavar="FILE")
    for inner in ("--serve", "--post"):
        parser.add_argument(inner, help=argparse.SUPPRESS)
    for inner in ("--profile", "--bodies"):
        parser.add_argument(inner, type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _databases(only: str | None) -> Iterator[tuple[str, str]]:
    if only != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'bench.db'}"
            migrate(url)
            yield "SQLite", url
    if only != "sqlite":
        with own_server() as server:
            databases = PostgresDatabases(server)
            url = databases.create(migrated=True)
            yield "PostgreSQL", url
            databases.drop(url)


def _measured(name: str, url: str, gpus: int, options: argparse.Namespace) -> Served:
    gpu_id = fill(url, gpus, options.reports)
    with tempfile.TemporaryDirectory() as folder:
        bodies = write_calls(Path(folder), options.clients, options.seconds)
        profile = Path(folder) / "profile.json"
        load = os.getloadavg()[0]
        with _running(url, profile) as (address, server):
            quiet = _asked(address, gpu_id, until=None)
            cpu_s = _cpu_s(server.pid)
            posting = [_client(address, own, options.seconds) for own in bodies]
            busy = _asked(address, gpu_id, until=time.monotonic() + options.seconds)
            told = [json.loads(client.communicate()[0]) for client in posting]
            cpu_s = _cpu_s(server.pid) - cpu_s
        parts = json.loads(profile.read_text(encoding="utf-8"))
        steps_ms = step_times_ms(url, last_calls(bodies[0], _STEP_CALLS))
    reports = sum(own["reports"] for own in told)
    return Served(
        database=name,
        gpus=gpus,
        load=load,
        reports_per_s=reports / max(own["seconds"] for own in told),
        cpu_ms_per_report=cpu_s / max(1, reports) * 1e3,
        parts=parts,
        steps_ms=steps_ms,
        quiet=quiet,
        busy=busy,
    )


@contextmanager
def _running(url: str, profile: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, __file__, "--serve", url, "--profile", str(profile)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 # this file
        assert server.stdout is not None  # noqa: S101 # a pipe
        address = server.stdout.readline().strip()
        try:
            yield address, server
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(_SIGNAL_S)


def _serve(url: str, profile: Path) -> None:
    with sampled_parts(profile):
        serve(Settings(database_url=url, port=0), on_ready=lambda address: print(address, flush=True))


def _client(address: str, bodies: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--post", address, "--bodies", str(bodies), "--seconds", str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 # this file


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


def _cpu_s(pid: int) -> float:
    """Processor time that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show(served: Served) -> None:
    print(
        f"\n{served.database}, {served.gpus:,} gpus (load {served.load:.1f} before): {served.reports_per_s:.0f} "
        f"reports/s, {served.cpu_ms_per_report:.1f} ms of processor a report"
    )
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


if __name__ == "__main__":
    main()
