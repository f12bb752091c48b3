"""
Servers that a benchmark asks: real processes that serve as `fleetridge-server serve` does, on loopback.

    python bench/server_process.py URL [--evaluate | --evaluate-always] [--in-thread]
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

import psycopg
from processes import cpu_s, own_cpu_s, parent_of

from fleetridge_server.db.database import open_database
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.evaluation.process import EvaluationProcess
from fleetridge_server.serve import serve
from fleetridge_server.settings import Settings
from fleetridge_server.verdicts.series import last_evaluations

Evaluating = Literal["never", "as due", "always", "always, in a thread"]

_OPTIONS: dict[Evaluating, list[str]] = {
    "never": [],
    "as due": ["--evaluate"],
    "always": ["--evaluate-always"],
    "always, in a thread": ["--evaluate-always", "--in-thread"],
}


@dataclass(frozen=True, slots=True)
class Server:
    """Address and process of a server."""

    address: str
    pid: int


@contextmanager
def running(url: str, *, servers: int = 1, evaluating: Evaluating = "never") -> Iterator[list[Server]]:
    """
    Servers of one database, until the block ends.

    Args:
        url: of the database.
        servers: how many.
        evaluating: when they evaluate; `always` begins anew at once, so that no time is without, in a process of its
            own as a server does, or in a thread.
    """
    command = [sys.executable, __file__, url, *_OPTIONS[evaluating]]
    with ExitStack() as ending:
        started = []
        for _ in range(servers):
            server = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))  # noqa: S603 # this file
            ending.callback(server.send_signal, signal.SIGTERM)
            assert server.stdout is not None  # noqa: S101 # a pipe
            started.append(Server(server.stdout.readline().strip(), server.pid))
        yield started


def spent_s(url: str, servers: Sequence[Server]) -> dict[str, float]:
    """
    Processor time that the servers have used, and the database's processes (0 on SQLite, which has none).

    `server` is that of the processes that answer, `workers` of those that take in reports for them.
    """
    own = sum(own_cpu_s(server.pid) for server in servers)
    spent = {"server": own, "workers": sum(cpu_s(server.pid) for server in servers) - own, "database": 0.0}
    if not url.startswith("sqlite"):
        with psycopg.connect(address_for_others(url)) as connection:
            spent["database"] = cpu_s(parent_of(connection.info.backend_pid))
    return spent


def address_for_others(url: str) -> str:
    """Address of a database without the name of our driver."""
    return url.replace("postgresql+psycopg:", "postgresql:")


def main() -> None:
    """Serve, and print the address."""
    parser = argparse.ArgumentParser(description="Serves a database to a benchmark.")
    parser.add_argument("url", help="of the database")
    parser.add_argument("--evaluate", action="store_true", help="when it is due")
    parser.add_argument("--evaluate-always", action="store_true", help="again and again")
    parser.add_argument("--in-thread", action="store_true", help="evaluate in the process that answers")
    options = parser.parse_args()
    settings = Settings(database_url=options.url, port=0, evaluate=options.evaluate)
    if options.evaluate_always:
        threading.Thread(target=_evaluate, args=(options.url, options.in_thread), daemon=True).start()
    serve(settings, on_ready=lambda address: print(address, flush=True))


def _evaluate(url: str, in_thread: bool) -> None:
    database = open_database(url)
    process = EvaluationProcess(url, database, None)
    while True:
        with database.reading() as session:
            device_groups = list(last_evaluations(session))
        for device_group in device_groups:
            if in_thread:
                Evaluator(database).evaluate_now(device_group)
            else:
                process.evaluate(device_group)


if __name__ == "__main__":
    main()
