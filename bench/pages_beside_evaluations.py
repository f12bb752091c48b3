"""
How long pages take while the server evaluates a large fleet, in a thread of its own process and in another process.

    python bench/pages_beside_evaluations.py [--gpus N] [--reports N] [--rounds N] [--seconds S]
        [--file DB] [--json FILE]

A fleet of one device is written by SQL on SQLite, and evaluated (`server_load.fill`). Then, in turn, a real server
evaluates nothing, evaluates all the time in a thread, and does so in a process, while one client on the same machine
asks for the first page of the fleet, of the device and of its ridge, and reads how much memory the evaluating process
has at its height. Ratios are of the same run. With a file the fleet stays, and is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from sqlalchemy import func, select

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the processes of the tests

from server_load import fill
from server_process import Evaluating, running

from fleetridge.text_table import Column, text_table
from fleetridge_server.db.database import open_database
from fleetridge_server.db.schema import migrate
from fleetridge_server.db.verdict_tables import StoredEvaluation
from support.processes import children_of

_PAGES = ("/?cluster=simulated", "/ui/devices/h200?cluster=simulated", "/devices/h200/ridge?cluster=simulated")
_MODES: tuple[Evaluating, ...] = ("never", "always, in a thread", "always")
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Asked:
    """
    Pages beside evaluations.

    Attributes:
        evaluations: that were stored meanwhile.
        child_mib, server_mib: memory at its height, of the process that evaluates (0 where there is none) and of the
            one that answers.
    """

    mode: str
    pages: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    evaluations: int
    child_mib: float
    server_mib: float


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Times pages while a fleet is evaluated.")
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--reports", type=int, default=30, help="of each gpu, a day apart")
    parser.add_argument("--rounds", type=int, default=2, help="in which each way has its turn")
    parser.add_argument("--seconds", type=float, default=30, help="of each turn")
    parser.add_argument("--file", type=Path, help="SQLite's, which stays")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the times here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.file or Path(folder) / "fleet.db"
        url, is_there = f"sqlite:///{file}", file.exists()
        if not is_there:
            migrate(url)
            fill(url, options.gpus, options.reports)
        turns = [(mode, *_turn(url, mode, options.seconds)) for _ in range(options.rounds) for mode in _MODES]
    asked = [_asked(mode, [turn for turn in turns if turn[0] == mode]) for mode in _MODES]
    _show(asked, options.gpus)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(own) for own in asked], indent=1) + "\n", encoding="utf-8")


def _turn(url: str, mode: Evaluating, seconds: float) -> tuple[list[float], int, float, float]:
    """Milliseconds of each page, evaluations that were stored, and MiB of the two processes."""
    times: list[float] = []
    with running(url, evaluating=mode) as [server], httpx.Client(base_url=server.address, timeout=_TIMEOUT_S) as client:
        for page in _PAGES:
            client.get(page).raise_for_status()
        before, until = _last_id(url), time.monotonic() + seconds
        child_mib = 0.0
        while time.monotonic() < until:
            for page in _PAGES:
                began_s = time.perf_counter()
                client.get(page).raise_for_status()
                times.append((time.perf_counter() - began_s) * 1e3)
            child_mib = max([child_mib, *map(_height_mib, children_of(server.pid))])
        return times, _last_id(url) - before, child_mib, _height_mib(server.pid)


def _last_id(url: str) -> int:
    """Number of evaluations so far: their ids count up."""
    database = open_database(url)
    with database.reading() as session:
        number = session.scalar(select(func.max(StoredEvaluation.id)))
    database.close()
    return number or 0


def _height_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def _asked(mode: str, turns: Sequence[tuple[str, list[float], int, float, float]]) -> Asked:
    times = sorted(ms for turn in turns for ms in turn[1])
    p50_ms, p99_ms = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.99))
    child_mib, server_mib = max(turn[3] for turn in turns), max(turn[4] for turn in turns)
    return Asked(mode, len(times), p50_ms, p99_ms, times[-1], sum(turn[2] for turn in turns), child_mib, server_mib)


def _show(asked: Sequence[Asked], gpus: int) -> None:
    _, thread, process = asked
    columns = [Column("evaluations", align="left"), Column("pages"), Column("p50", "ms"), Column("p99", "ms")]
    columns += [Column("worst", "ms"), Column("stored"), Column("server", "MiB"), Column("child", "MiB")]
    rows = []
    for own in asked:
        figures = (own.p50_ms, own.p99_ms, own.worst_ms, own.evaluations, own.server_mib, own.child_mib)
        rows.append([own.mode, f"{own.pages}", *(f"{figure:.0f}" for figure in figures)])
    print(text_table(columns, rows, title=f"{gpus:,} gpus on SQLite, load {os.getloadavg()[0]:.1f}"))
    print(f"process / thread: p50 {process.p50_ms / thread.p50_ms:.2f}, p99 {process.p99_ms / thread.p99_ms:.2f}")


if __name__ == "__main__":
    main()
