"""
What two versions of the server cost, as ratios of processor time in one run: reports, an evaluation, lists.

    python bench/ratios.py OLD NEW [--gpus N] [--reports N] [--rounds N] [--calls N] [--only sqlite|postgresql]
        [--skip PART ...] [--json FILE]

OLD and NEW are checkouts. Each runs its own commands and its own server in processes of its own, with a database of its
own; the same is asked of both in turn, round by round (old, new, old, new …), so that a busy machine is busy for both.
Fleets are written by each checkout's own `bench/server_load.py`. Measured are, on SQLite and on PostgreSQL:

- reports: processor time of the server, of the processes that take in reports for it and of the database, for each
  report of full calls (eight reports of 60 points), after two calls that are not counted;
- evaluation: the command `evaluate` on a fleet that no evaluation knows; on SQLite as often as there are rounds, on
  copies of the file, on PostgreSQL once; then `again`, when nothing is due;
- lists: `/devices/{name}/ridge` of the whole, filtered, since a time and on a late page: processor time and latency.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
from processes import cpu_s, parent_of
from server_calls import GPUS_PER_NODE, call_of, full_reports
from server_process import Server, address_for_others, spent_s
from trees import Tree

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the PostgreSQL of the tests

from fleetridge.text_table import Column, text_table
from support.databases import PostgresDatabases
from support.postgres import own_server

_PARTS = ("reports", "evaluation", "lists")
_DEVICE = "h200"
_IN = "cluster=simulated"
_TIMEOUT_S = 300
_ANSWERS_A_ROUND = 5
_UNCOUNTED_CALLS = 2
_HEADERS = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
_LISTS = {
    "first page": "",
    "a dtype": "&dtype=bfloat16",
    "a regime": "&regime=burst",
    "outliers": "&verdict=outlier",
    "a node": "&node={node}",
    "a driver": "&driver={driver}",
    "late page": "&after={after}",
    "since": "&since={since}",
    "dtype and outliers": "&dtype=bfloat16&verdict=outlier",
}
_PAGES_TO_A_LATE_ONE = 5

# Runs in a checkout: what its benchmarks write, without the evaluation.
_FILL = """
import sys
from unittest.mock import MagicMock, patch
import server_load
url, gpus, reports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with patch.object(server_load, "Evaluator", MagicMock()):
    server_load.fill(url, gpus, reports)
"""

# The command, after it has done its work in a database without a gpu, so that nothing is imported while a clock runs.
_EVALUATE = """
import sys, time
from fleetridge_server.cli import main
empty, url = sys.argv[1:]
main(["evaluate", "--database-url", empty])
cpu_s, wall_s = time.process_time(), time.perf_counter()
if main(["evaluate", "--database-url", url]):
    sys.exit("the evaluation failed")
print(time.process_time() - cpu_s, time.perf_counter() - wall_s)
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of processor, and by the clock where somebody waits, of one thing in one round of one version."""

    database: str
    what: str
    version: str
    cpu_s: float
    wall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """Two checkouts and what is asked of them."""

    versions: dict[str, Tree]
    gpus: int
    reports: int
    rounds: int
    calls: int
    parts: frozenset[str]


def main() -> None:
    """Measure, and print ratios."""
    options = _options()
    versions = {"old": Tree(options.old), "new": Tree(options.new)}
    parts = frozenset(_PARTS) - set(options.skip)
    bench = Bench(versions, options.gpus, options.reports, options.rounds, options.calls, parts)
    found: list[Measured] = []
    for name in ("sqlite", "postgresql"):
        if options.only in (None, name):
            with _databases(name, bench) as urls:
                for one in _measured(name, urls, bench):
                    found.append(one)
                    print(f"{name} {one.what} {one.version}: {one.cpu_s * 1e3:.2f} ms", file=sys.stderr, flush=True)
    _show(found)
    if options.json is not None:
        rows = [{name: getattr(one, name) for name in Measured.__dataclass_fields__} for one in found]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares what two versions of the server cost.")
    parser.add_argument("old", type=Path, help="folder of a checkout")
    parser.add_argument("new", type=Path, help="folder of another")
    parser.add_argument("--gpus", type=int, default=5_000, help="of the fleet that is evaluated and listed")
    parser.add_argument("--reports", type=int, default=3, help="of each of them")
    parser.add_argument("--rounds", type=int, default=3, help="in which both are asked in turn")
    parser.add_argument("--calls", type=int, default=40, help="of eight reports, in each round")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--skip", nargs="+", choices=_PARTS, default=[])
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


@contextmanager
def _databases(name: str, bench: Bench) -> Iterator[Callable[[], dict[str, str]]]:
    """What makes new migrated databases, one for each version."""
    numbers = iter(range(1_000_000))
    with ExitStack() as ending:
        make: Callable[[], str]
        if name == "sqlite":
            folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))

            def make() -> str:
                return f"sqlite:///{folder / f'ratios-{next(numbers)}.db'}"
        else:
            databases = PostgresDatabases(ending.enter_context(own_server()))

            def make() -> str:
                return databases.create(migrated=False)

        def migrated() -> dict[str, str]:
            urls = {version: make() for version in bench.versions}
            for version, tree in bench.versions.items():
                tree.command(urls[version], "migrate")
            return urls

        yield migrated


def _measured(name: str, databases: Callable[[], dict[str, str]], bench: Bench) -> Iterator[Measured]:
    if "reports" in bench.parts:
        yield from _reports(name, databases(), bench)
    if bench.parts & {"evaluation", "lists"}:
        urls = databases()
        for version, tree in bench.versions.items():
            _fill(tree, urls[version], bench)
        yield from _evaluations(name, urls, databases(), bench)
        if "lists" in bench.parts:
            yield from _lists(name, urls, bench)


def _fill(tree: Tree, url: str, bench: Bench) -> None:
    command = [sys.executable, "-c", _FILL, url, str(bench.gpus), str(bench.reports)]
    subprocess.run(command, env=tree.environment(), check=True)  # noqa: S603 # our own program


def _reports(name: str, urls: dict[str, str], bench: Bench) -> Iterator[Measured]:
    """Processor time of a report, in each round from calls that are the same for both."""
    reports = full_reports()
    with ExitStack() as ending:
        servers, clients = {}, {}
        for version, tree in bench.versions.items():
            servers[version] = ending.enter_context(tree.serving(urls[version]))
            clients[version] = ending.enter_context(_client(servers[version]))
        for turn in range(-1, bench.rounds):
            asked = range(bench.calls if turn >= 0 else _UNCOUNTED_CALLS)
            calls = [_call(reports, turn, number, bench) for number in asked]
            for version, client in clients.items():
                before = _spent_s(urls[version], servers[version])
                taken = sum(_post(client, call) for call in calls)
                spent = _spent_s(urls[version], servers[version]) - before
                if turn >= 0:
                    yield Measured(name, "a report", version, spent / taken)


def _call(reports: Sequence[dict[str, Any]], turn: int, number: int, bench: Bench) -> bytes:
    """Reports of the gpus of one node in a minute of its own."""
    at = datetime.now(timezone.utc) - timedelta(minutes=(bench.rounds - turn) * bench.calls + number + 1)
    gpus = [f"GPU-ratios-{number}-{index}" for index in range(GPUS_PER_NODE)]
    return gzip.compress(json.dumps(call_of(reports, f"node-{number}", gpus, at)).encode(), 6)


def _post(client: httpx.Client, call: bytes) -> int:
    answer = client.post("/reports", content=call, headers=_HEADERS).raise_for_status()
    created = [result for result in answer.json()["results"] if result["outcome"] == "created"]
    if len(created) != len(answer.json()["results"]):
        raise SystemExit(f"the server does not take the bench's reports: {answer.text[:500]}")
    return len(created)


def _evaluations(name: str, urls: dict[str, str], empty: dict[str, str], bench: Bench) -> Iterator[Measured]:
    """Processor time of a first evaluation and of one when nothing is due."""
    rounds = bench.rounds if name == "sqlite" and "evaluation" in bench.parts else 1
    for turn in range(rounds):
        for version, tree in bench.versions.items():
            url = urls[version] if turn == rounds - 1 else _copied(urls[version])
            for what in ("evaluation", "again"):
                yield Measured(name, what, version, *_evaluated(tree, url, empty[version]))
            if url != urls[version]:
                Path(url.removeprefix("sqlite:///")).unlink()


def _copied(url: str) -> str:
    """Another SQLite file with the same rows."""
    copy = f"{url}-{uuid4().hex}"
    shutil.copy(url.removeprefix("sqlite:///"), copy.removeprefix("sqlite:///"))
    return copy


def _evaluated(tree: Tree, url: str, empty: str) -> tuple[float, float]:
    """Processor time of the command's process and of the database's, and by the clock."""
    before_s = _database_s(url)
    command = [sys.executable, "-c", _EVALUATE, empty, url]
    done = subprocess.run(command, env=tree.environment(), check=True, capture_output=True, text=True)  # noqa: S603 # our own program
    cpu_s, wall_s = map(float, done.stdout.split()[-2:])
    return cpu_s + _database_s(url) - before_s, wall_s


def _lists(name: str, urls: dict[str, str], bench: Bench) -> Iterator[Measured]:
    """Processor time and latency of each list, some answers a round."""
    with ExitStack() as ending:
        servers, clients, addresses = {}, {}, {}
        for version, tree in bench.versions.items():
            servers[version] = ending.enter_context(tree.serving(urls[version]))
            clients[version] = ending.enter_context(_client(servers[version]))
            addresses[version] = _addresses(clients[version])
        for turn in range(-1, bench.rounds):
            for what in _LISTS:
                for version, client in clients.items():
                    before = _spent_s(urls[version], servers[version])
                    times = [_took_s(client, addresses[version][what]) for _ in range(_ANSWERS_A_ROUND)]
                    spent = (_spent_s(urls[version], servers[version]) - before) / _ANSWERS_A_ROUND
                    if turn >= 0:
                        yield Measured(name, f"ridge, {what}", version, spent, statistics.median(times))


def _addresses(client: httpx.Client) -> dict[str, str]:
    """Addresses with what is to be found in the middle of the first page."""
    url = f"/devices/{_DEVICE}/ridge?{_IN}"
    page = client.get(url).raise_for_status().json()
    gpu, after = page["gpus"][len(page["gpus"]) // 2], page["next"]
    for _ in range(_PAGES_TO_A_LATE_ONE):
        after = client.get(f"{url}&after={after}").raise_for_status().json()["next"]
    latest = client.get(f"/gpus/{gpu['gpu_id']}?{_IN}").raise_for_status().json()["latest"]
    since = datetime.now(timezone.utc) - timedelta(days=2)
    known = {"node": gpu["node"], "driver": latest["driver"], "after": after, "since": f"{since:%Y-%m-%dT%H:%M:%SZ}"}
    return {what: url + query.format(**known) for what, query in _LISTS.items()}


def _took_s(client: httpx.Client, address: str) -> float:
    started = time.perf_counter()
    client.get(address).raise_for_status()
    return time.perf_counter() - started


def _client(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.address, timeout=_TIMEOUT_S)


def _spent_s(url: str, server: Server) -> float:
    return sum(spent_s(url, [server]).values())


def _database_s(url: str) -> float:
    """Processor time of the database's processes; 0 on SQLite, which has none."""
    if url.startswith("sqlite"):
        return 0.0
    with psycopg.connect(address_for_others(url)) as connection:
        return cpu_s(parent_of(connection.info.backend_pid))


def _show(found: Sequence[Measured]) -> None:
    """Medians of each version, and the ratio of those."""
    cpu: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    wall: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        cpu[one.database, one.what][one.version].append(one.cpu_s)
        if one.wall_s is not None:
            wall[one.database, one.what][one.version].append(one.wall_s)
    columns = [Column("database", align="left"), Column("what", align="left"), Column("old", "cpu ms")]
    columns += [Column("new", "cpu ms"), Column("new/old", "of cpu"), Column("rounds", align="left")]
    columns += [Column("old", "ms"), Column("new", "ms")]
    rows = []
    for key, versions in cpu.items():
        old, new = (statistics.median(versions[version]) for version in ("old", "new"))
        each = " ".join(f"{b / a:.2f}" if a else "-" for a, b in zip(versions["old"], versions["new"], strict=True))
        waited = [
            f"{statistics.median(wall[key][version]) * 1e3:.0f}" if key in wall else "" for version in ("old", "new")
        ]
        ratio = f"{new / old:.2f}" if old else "-"
        rows.append([*key, f"{old * 1e3:.2f}", f"{new * 1e3:.2f}", ratio, each, *waited])
    print(text_table(columns, rows, width=140, title="medians over the rounds; rounds: the ratio in each"))


if __name__ == "__main__":
    main()
