"""
How long answers about a large fleet take, on SQLite and on PostgreSQL, alone and while reports come.

    python bench/reading.py [--gpus N ...] [--reports N] [--only sqlite] [--seconds S] [--reports-per-s N]
        [--folder DIR] [--json FILE]

For each size a fleet of one device is written by SQL with all its reports, and evaluated (`server_load.fill`). Then a
real server is asked over HTTP on loopback by one client: each answer by itself, by the clock and as processor time of
the server and of PostgreSQL's processes; then those that have a goal, in turn, while another client posts full reports
of the fleet's gpus at a steady rate, and once more while the server evaluates the fleet all the time besides. The
client runs on the same machine. With a folder SQLite's files stay there, and are used again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from http import HTTPStatus
from pathlib import Path

import httpx

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from server_calls import posting, rate, told, write_calls
from server_load import fill
from server_process import Evaluating, Server, running, spent_s

from fleetridge.text_table import Column, text_table
from fleetridge_server.db.schema import migrate
from support.databases import PostgresDatabases
from support.postgres import own_server

_OF_DEVICE = "/devices/h200"
_IN = "cluster=simulated"
_PAGES = {
    "ridge, first page": f"{_OF_DEVICE}/ridge?{_IN}",
    "ridge, later page": f"{_OF_DEVICE}/ridge?{_IN}&after={{after}}",
    "ridge, a dtype": f"{_OF_DEVICE}/ridge?{_IN}&dtype=bfloat16",
    "ridge, a driver": f"{_OF_DEVICE}/ridge?{_IN}&driver={{driver}}",
    "ridge, since": f"{_OF_DEVICE}/ridge?{_IN}&since={{since}}",
    "ridge, outliers": f"{_OF_DEVICE}/ridge?{_IN}&verdict=outlier",
    "ridge, ten outliers": f"{_OF_DEVICE}/ridge?{_IN}&verdict=outlier&limit=10",
    "ridge, a node": f"{_OF_DEVICE}/ridge?{_IN}&node={{node}}",
    "compare": f"{_OF_DEVICE}/compare?{_IN}&by=driver",
    "workloads": f"{_OF_DEVICE}/workloads?{_IN}",
    "devices": f"/devices?{_IN}",
    "fleet": f"/fleet?{_IN}",
    "gpu": f"/gpus/{{gpu}}?{_IN}",
    "gpu's history": f"/gpus/{{gpu}}/history?{_IN}",
    "page of the fleet": f"/?{_IN}",
    "page of a device": f"/ui{_OF_DEVICE}?{_IN}",
}

# At the 95th percentile and with 100,000 gpus, reports or none.
_GOALS_MS = {"ridge, first page": 100, "fleet": 100, "gpu's history": 50}

_LEAST_ANSWERS = 40
# An answer that takes seconds is asked for less often, which the table says.
_MOST_S_A_PAGE = 20
_TIMEOUT_S = 120

# 100,000 gpus of which each is measured once a day send little more than one report a second.
_REPORTS_PER_S = 64


@dataclass(frozen=True, slots=True)
class Took:
    """
    Milliseconds of so many answers.

    Attributes:
        p50_ms, p95_ms: by the clock.
        cpu_ms: processor time for each, of the server and of the database's processes; None where it was not alone.
    """

    answers: int
    p50_ms: float
    p95_ms: float
    cpu_ms: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """Answers while reports came, of which so many a second were taken."""

    reports_per_s: float
    pages: dict[str, Took]


@dataclass(frozen=True, slots=True)
class Read:
    """
    Times of one fleet's answers.

    Attributes:
        load: other processes that wanted to run, before.
        alone: with nothing else to do; None for an answer that the server gave up.
        taking, evaluating: while reports came, without and with an evaluation beside them.
    """

    database: str
    gpus: int
    load: float
    alone: dict[str, Took | None]
    taking: Beside
    evaluating: Beside


def main() -> None:
    """Measure, and print tables."""
    options = _options()
    found: list[Read] = []
    for name in ("SQLite", "PostgreSQL"):
        if options.only in (None, name.lower()):
            for gpus in options.gpus:
                with _database(name, gpus, options) as url:
                    found.append(_read(name, url, gpus, options))
                _show_beside(found[-1])
            _show_alone([own for own in found if own.database == name])
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(own) for own in found], indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times answers about fleets of growing size.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--reports", type=int, default=30, help="of each gpu, a day apart")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--seconds", type=float, default=60, help="of posting, twice")
    parser.add_argument("--reports-per-s", type=float, default=_REPORTS_PER_S, help="that are posted, eight in a call")
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
            fill(url, gpus, options.reports)
            yield url
            databases.drop(url)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = (options.folder or Path(folder)) / f"reading-{gpus}.db"
        url, is_there = f"sqlite:///{file}", file.exists()
        if not is_there:
            migrate(url)
            fill(url, gpus, options.reports)
        yield url


def _read(name: str, url: str, gpus: int, options: argparse.Namespace) -> Read:
    load = os.getloadavg()[0]
    with running(url) as [server]:
        alone = _alone(url, server)
    beside = [_beside(url, evaluating, options) for evaluating in ("never", "always")]
    return Read(name, gpus, load, alone, *beside)


def _alone(url: str, server: Server) -> dict[str, Took | None]:
    """Times of all pages, one after the other."""
    took: dict[str, Took | None] = {}
    with _client(server) as client:
        for page, address in _addresses(client).items():
            if client.get(address).status_code == HTTPStatus.SERVICE_UNAVAILABLE:
                took[page] = None
                continue
            _took_ms(client, address)
            before, until = spent_s(url, [server]), time.monotonic() + _MOST_S_A_PAGE
            times: list[float] = []
            while len(times) < _LEAST_ANSWERS and time.monotonic() < until:
                times.append(_took_ms(client, address))
            cpu_ms = {part: (own - before[part]) / len(times) * 1e3 for part, own in spent_s(url, [server]).items()}
            took[page] = _took(times, cpu_ms)
    return took


def _beside(url: str, evaluating: Evaluating, options: argparse.Namespace) -> Beside:
    """Times of the pages that have a goal, in turn, while reports come."""
    times: dict[str, list[float]] = {page: [] for page in _GOALS_MS}
    per_s, seconds = options.reports_per_s, options.seconds
    with tempfile.TemporaryDirectory() as folder:
        calls = write_calls(Path(folder), url, 1, seconds, reports_per_s=per_s)
        with running(url, evaluating=evaluating) as [server], _client(server) as client:
            addresses = _addresses(client)
            clients = posting([server.address], calls, seconds, reports_per_s=per_s)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                for page, own in times.items():
                    own.append(_took_ms(client, addresses[page]))
            taken = told(clients)
    return Beside(rate(taken), {page: _took(own) for page, own in times.items()})


def _client(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.address, timeout=_TIMEOUT_S)


def _addresses(client: httpx.Client) -> dict[str, str]:
    """The pages with what they are asked for: a gpu and a node in the middle of the first page, and its driver."""
    first = client.get(_PAGES["ridge, first page"]).raise_for_status().json()
    gpu = first["gpus"][len(first["gpus"]) // 2]
    newest = client.get(_PAGES["gpu"].format(gpu=gpu["gpu_id"])).raise_for_status().json()["latest"]
    since = datetime.now(timezone.utc) - timedelta(days=2)
    known = {
        "after": first["next"],
        "gpu": gpu["gpu_id"],
        "node": gpu["node"],
        "driver": newest["driver"],
        "since": f"{since:%Y-%m-%dT%H:%M:%SZ}",
    }
    return {page: address.format(**known) for page, address in _PAGES.items()}


def _took_ms(client: httpx.Client, address: str) -> float:
    started = time.perf_counter()
    client.get(address).raise_for_status()
    return (time.perf_counter() - started) * 1e3


def _took(times: Sequence[float], cpu_ms: Mapping[str, float] | None = None) -> Took:
    return Took(len(times), _share(times, 0.5), _share(times, 0.95), cpu_ms)


def _share(took: Sequence[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(share * len(took)))]


def _show_alone(found: Sequence[Read]) -> None:
    """One size beside the other."""
    names = [f"{own.gpus:,}" for own in found]
    columns = [Column("answer", align="left"), *(Column(name, "p50 ms") for name in names)]
    columns += [Column("p95", "ms"), Column("cpu", "ms"), Column("growth"), Column("of cpu")]
    rows = [[page, *_cells([own.alone[page] for own in found])] for page in _PAGES]
    title = f"{found[0].database}, alone; p95 and cpu of {names[-1]} gpus"
    print(text_table(columns, rows, title=title), flush=True)


def _cells(took: Sequence[Took | None]) -> list[str]:
    times = ["given up" if own is None else f"{own.p50_ms:.0f}" for own in took]
    first, last = took[0], took[-1]
    if first is None or last is None:
        return [*times, *[""] * 4]
    cpu = [sum((own.cpu_ms or {}).values()) for own in (first, last)]
    return [
        *times,
        f"{last.p95_ms:.0f}",
        f"{cpu[1]:.0f}",
        f"{last.p50_ms / first.p50_ms:.1f}",
        f"{cpu[1] / cpu[0]:.1f}",
    ]


def _show_beside(read: Read) -> None:
    """What has a goal, in one size."""
    columns = [Column("answer", align="left")]
    for state in ("alone", "taking", "evaluating"):
        columns += [Column(state, "p50 ms"), Column("p95", "ms")]
    columns.append(Column("goal", "p95 ms"))
    rows = []
    for page, goal_ms in _GOALS_MS.items():
        own = read.alone[page], read.taking.pages[page], read.evaluating.pages[page]
        times = [ms for took in own if took is not None for ms in (took.p50_ms, took.p95_ms)]
        rows.append([page, *(f"{ms:.0f}" for ms in times), f"{goal_ms}"])
    answers = min(took.answers for beside in (read.taking, read.evaluating) for took in beside.pages.values())
    print(
        f"{read.database}, {read.gpus:,} gpus (load {read.load:.1f} before); "
        f"{read.taking.reports_per_s:.0f} reports/s taken, {read.evaluating.reports_per_s:.0f} beside evaluations; "
        f"at least {answers} answers"
    )
    print(text_table(columns, rows), flush=True)


if __name__ == "__main__":
    main()
