"""
What becomes of acknowledged reports when server, database, disk or clients fail: counts of each, again and again.

    python bench/soak.py [--times N] [--only WORD] [--json FILE]

Callers post reports to a real server without a pause while one thing after another goes wrong, on SQLite and on a
PostgreSQL of its own, and post each again until they are told that it is there. Ends with 1 if a report that was
acknowledged is missing, is there twice or not whole, or if anybody was told anything but 200, 503 with Retry-After, or
nothing at all. The full disk is a file system of some megabytes in memory, which only root can make; without that it is
left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

sys.path.append(
    str(Path(__file__).resolve().parent.parent / "tests")
)  # the load, the proxy and the databases of the tests

import psycopg

from fleetridge.text_table import Column, text_table
from fleetridge_server.db.schema import check_drift, migrate
from support.database_proxy import DatabaseProxy, database_proxy
from support.databases import Databases, PostgresDatabases, SqliteDatabases
from support.load import Kept, Load, kept, load
from support.mortal_postgres import MortalPostgres, mortal_postgres
from support.server_process import ServerProcess, server_process
from support.slow_clients import SLOW, cut_off
from support.small_disk import fill_up, on_disk, small_disk

# Calls that are answered between two blows, so that each falls into work.
_CALLS_BETWEEN = 5

# Counts are to be compared side by side.
_WIDTH = 200

_ALLOWED = frozenset({"200", "503", "no answer"})

# Ends every connection but the one that asks.
_END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> '' AND pid <> pg_backend_pid()"


@dataclass(frozen=True)
class Soaked:
    """
    One kind of failure on one database.

    Attributes:
        blows: how often it was done.
        answers: that callers got, by kind.
        sent, acknowledged: reports.
        kept: what the database held at the end.
        elapsed_s: of all of it.
        remark: what else there is to say.
    """

    failure: str
    database: str
    blows: int
    answers: dict[str, int]
    sent: int
    acknowledged: int
    kept: Kept
    elapsed_s: float
    remark: str = ""

    @property
    def is_right(self) -> bool:
        """Whether nothing acknowledged is lost, nothing is there twice or torn, and nobody was told anything else."""
        return self.kept.is_right and self.answers.keys() <= _ALLOWED


@dataclass
class Scene:
    """A server that can be replaced, under load."""

    url: str
    lives: ExitStack
    made: Load
    server: ServerProcess
    address: str

    def start(self) -> None:
        """Start a server in the place of the one before."""
        self.server = self.lives.enter_context(server_process(self.url))
        self.address = self.server.address()


def main() -> int:
    """Let everything fail, count, print."""
    options = _options()
    results: list[Soaked] = []
    with tempfile.TemporaryDirectory() as folder, mortal_postgres() as postgres:
        makers: dict[str, Databases] = {
            "SQLite": SqliteDatabases(Path(folder)),
            "PostgreSQL": PostgresDatabases(postgres.url),
        }
        for name, soak in _soaks(postgres, Path(folder)):
            for database, maker in makers.items():
                if options.only in f"{name} {database}":
                    result = soak(name, database, maker, options.times)
                    if result is not None:
                        results.append(result)
                        _print([result])
    print("\nAll of it:")
    _print(results)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=2))
    return 0 if results and all(result.is_right for result in results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Lets server, database, disk and clients fail, and counts reports.")
    parser.add_argument("--times", type=int, default=10, help="how often each thing goes wrong (default: 10)")
    parser.add_argument("--only", default="", metavar="WORD", help="what has this word in its name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result here")
    return parser.parse_args()


Soak = Callable[[str, str, Databases, int], "Soaked | None"]


def _soaks(postgres: MortalPostgres, folder: Path) -> Iterator[tuple[str, Soak]]:
    yield "server killed (SIGKILL)", _under_load(_kill)
    yield "server ended (SIGTERM)", _under_load(_end)
    yield "database restarted at once", _on_postgres(_under_load(lambda _scene: _restart(postgres)))
    yield "all connections ended", _on_postgres(_under_load(lambda _scene: _end_connections(postgres)))
    yield "connection lost around a commit", _on_postgres(_through_proxy(postgres))
    yield "disk full", _on_small_disk(postgres, folder)
    yield f"{SLOW} slow clients", _with_slow_clients
    yield "replica killed while it migrates", _migrating


def _under_load(blow: Callable[[Scene], None]) -> Soak:
    def soak(name: str, database: str, maker: Databases, times: int) -> Soaked:
        return _struck(name, database, maker.create(migrated=True), times, blow)

    return soak


def _on_postgres(soak: Soak) -> Soak:
    return lambda name, database, maker, times: soak(name, database, maker, times) if database == "PostgreSQL" else None


def _struck(name: str, database: str, url: str, times: int, blow: Callable[[Scene], None], via: str = "") -> Soaked:
    """Strike a server on a database some times; `via` is another address of that database, for the server."""
    began_s = time.perf_counter()
    with _scene(via or url) as scene:
        for _ in range(times):
            scene.made.wait_for_calls(_CALLS_BETWEEN)
            blow(scene)
        scene.made.wait_for_calls(_CALLS_BETWEEN)
    return _soaked(name, database, times, scene.made, kept(url, scene.made), began_s)


@contextmanager
def _scene(url: str) -> Iterator[Scene]:
    with ExitStack() as lives:
        server = lives.enter_context(server_process(url))
        scene = Scene(url, lives, Load(), server, server.address())
        with load(lambda: scene.address, made=scene.made):
            yield scene
        scene.server.stop()


def _soaked(name: str, database: str, blows: int, made: Load, found: Kept, began_s: float, remark: str = "") -> Soaked:
    elapsed_s = time.perf_counter() - began_s
    sent, acknowledged = len(made.sent), len(made.acknowledged)
    return Soaked(name, database, blows, dict(made.answers), sent, acknowledged, found, elapsed_s, remark)


def _kill(scene: Scene) -> None:
    scene.server.process.kill()
    scene.server.process.wait()
    scene.start()


def _end(scene: Scene) -> None:
    scene.server.stop()
    scene.start()


def _restart(postgres: MortalPostgres) -> None:
    postgres.crash()
    postgres.start()


def _end_connections(postgres: MortalPostgres) -> None:
    plain = postgres.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        connection.execute(_END_ALL)


def _through_proxy(postgres: MortalPostgres) -> Soak:
    def soak(name: str, database: str, maker: Databases, times: int) -> Soaked:
        url = maker.create(migrated=True)
        with database_proxy(postgres.socket) as proxy:
            own = postgres.url.set(host="127.0.0.1", port=proxy.port, query={}, database=urlsplit(url).path.lstrip("/"))
            via = own.render_as_string(hide_password=False)
            return _struck(name, database, url, times, lambda _scene: _lose_one(proxy), via)

    return soak


def _lose_one(proxy: DatabaseProxy) -> None:
    proxy.loss = "after the commit" if proxy.lost % 2 else "before the commit"
    while proxy.loss is not None:
        time.sleep(0.005)


def _on_small_disk(postgres: MortalPostgres, folder: Path) -> Soak:
    """Fill the disk up, wait until callers are told so, make room, and so on."""

    def soak(name: str, database: str, maker: Databases, times: int) -> Soaked | None:
        if os.geteuid() != 0:
            print(f"{name}: left out, for only root can make a small file system")
            return None
        with (
            small_disk(folder / f"disk-{database}", owner=postgres.owner) as disk,
            on_disk(maker.create(migrated=True), disk) as url,
        ):
            return _struck(name, database, url, times, lambda scene: fill_up(disk, scene.made))

    return soak


def _with_slow_clients(name: str, database: str, maker: Databases, _times: int) -> Soaked:
    """Once, for as long as it takes until the last of them is cut off."""
    url, began_s = maker.create(migrated=True), time.perf_counter()
    with _scene(url) as scene:
        told = cut_off(scene.address, scene.server.process.pid)
    remark = f"all cut off after {told.longest_s:.0f} s, memory +{told.growth_bytes / 1e6:.0f} MB"
    return _soaked(name, database, SLOW, scene.made, kept(url, scene.made), began_s, remark)


def _migrating(name: str, database: str, maker: Databases, times: int) -> Soaked:
    """Kill migrations of an empty database at any moment, then finish each; nothing is posted."""
    began_s, choose, finished = time.perf_counter(), random.Random(1), 0  # noqa: S311 # no secret
    for _ in range(times):
        url = maker.create(migrated=False)
        command = [sys.executable, "-m", "fleetridge_server.cli", "migrate", "--database-url", url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603 # our own words
            threading.Event().wait(choose.uniform(0.5, 4.0))
            process.kill()
        finished += process.returncode == 0
        migrate(url)
        check_drift(url)
        maker.drop(url)
    remark = f"every schema whole afterwards; {finished} had finished before"
    return _soaked(name, database, times, Load(), Kept(0, 0, 0, 0), began_s, remark)


def _print(results: list[Soaked]) -> None:
    texts = ("failure", "database")
    numbers = (
        "times",
        "200",
        "503",
        "none",
        "other",
        "sent",
        "acknowledged",
        "stored",
        "missing",
        "twice",
        "torn",
        "s",
    )
    columns = [Column(name, align="left") for name in texts] + [Column(name) for name in numbers]
    columns.append(Column("remark", align="left"))
    print(text_table(columns, [_row(result) for result in results], width=_WIDTH), flush=True)


def _row(result: Soaked) -> list[str]:
    told, found = result.answers, result.kept
    other = sum(count for kind, count in told.items() if kind not in _ALLOWED)
    counts = (
        result.blows, told.get("200", 0), told.get("503", 0), told.get("no answer", 0), other, result.sent,
        result.acknowledged, found.stored, found.missing, found.twice, found.torn, round(result.elapsed_s),
    )  # fmt: skip
    return [result.failure, result.database, *map(str, counts), result.remark]


if __name__ == "__main__":
    sys.exit(main())
