"""
What becomes of a fleet's reports on a bad network: every one on the server, none twice, and at what rate.

    python bench/delivery.py [--reports N] [--agents N] [--faulty PERCENT] [--seed N] [--json FILE]

Agents with a spool each deliver through a proxy that harms their calls in every way it knows, to a real server on
SQLite and on PostgreSQL (its own, or the one that TEST_DATABASE_URL names), and then once more without a fault. The
pauses between tries are left out, and on the bad network a silent server is waited for one second. Ends with 1 if a
report is missing, is there twice, or is left in a spool.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the proxy and the databases of the tests

import httpx

from fleetridge.text_table import Column, text_table
from support.databases import Databases, PostgresDatabases, SqliteDatabases
from support.fault_proxy import CALM, FAULTS, fault_proxy
from support.postgres import server_url
from support.server_process import server_process
from support.soak import PATIENCE, Soaked, every_fault, soak, stored_ids

_GPUS = 8

# A server under load answers late on its own; nothing is to be learnt from giving up on it.
_CALM_PATIENCE = httpx.Timeout(60.0)


@dataclass(frozen=True)
class Outcome:
    """
    What became of the reports of one fleet on one database.

    Attributes:
        sent, stored, twice, missing: reports made, rows on the server, rows too many, and reports without one.
        left: files in the spools at the end.
        dead, lost: as the agents counted them.
        elapsed_s: from the first report to the last empty spool.
        calls: what was done to how many calls.
    """

    database: str
    network: str
    sent: int
    stored: int
    twice: int
    missing: int
    left: int
    dead: int
    lost: int
    elapsed_s: float
    calls: dict[str, int]

    @property
    def is_right(self) -> bool:
        """Whether each report is on the server exactly once and nowhere else."""
        return (self.stored, self.twice, self.missing, self.left, self.dead, self.lost) == (self.sent, 0, 0, 0, 0, 0)

    @property
    def reports_per_s(self) -> float:
        """Reports delivered in a second."""
        return self.sent / self.elapsed_s


def main() -> int:
    """Deliver, count, print."""
    options = _options()
    logging.getLogger("fleetridge_agent").setLevel(logging.CRITICAL)  # it would tell of every fault
    with _makers() as makers:
        outcomes = [
            _outcome(database, databases, network, options)
            for database, databases in makers.items()
            for network in ("faulty", CALM)
        ]
    _print(outcomes)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    return 0 if all(outcome.is_right for outcome in outcomes) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Delivers reports through faults and counts them.")
    parser.add_argument("--reports", type=int, default=2000, help=f"in runs of {_GPUS} gpus (default: 2000)")
    parser.add_argument("--agents", type=int, default=5, help="that deliver at the same time (default: 5)")
    parser.add_argument("--faulty", type=int, default=60, help="per cent of the calls that are harmed (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the faults (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result here")
    return parser.parse_args()


@contextmanager
def _makers() -> Iterator[dict[str, Databases]]:
    with tempfile.TemporaryDirectory() as folder, server_url(os.environ) as url:
        postgres = PostgresDatabases(url)
        try:
            yield {"SQLite": SqliteDatabases(Path(folder)), "PostgreSQL": postgres}
        finally:
            postgres.close()


def _outcome(database: str, databases: Databases, network: str, options: argparse.Namespace) -> Outcome:
    url = databases.create(migrated=True)
    script = [] if network == CALM else _script(options)
    with (
        tempfile.TemporaryDirectory() as folder,
        server_process(url) as server,
        fault_proxy(server.address(), script) as proxy,
    ):
        started = time.perf_counter()
        soaked = _fleet(proxy.address, Path(folder), options, PATIENCE if script else _CALM_PATIENCE)
        elapsed_s = time.perf_counter() - started
        stored = stored_ids(url)
    databases.drop(url)
    sent = [report_id for agent in soaked for report_id in agent.sent]
    tallies = [tally for agent in soaked for tally in agent.tallies]
    return Outcome(
        database=database,
        network=network,
        sent=len(sent),
        stored=len(stored),
        twice=len(stored) - len(set(stored)),
        missing=len(set(sent) - set(stored)),
        left=sum(agent.left for agent in soaked),
        dead=sum(tally.dead for tally in tallies),
        lost=sum(tally.lost for tally in tallies),
        elapsed_s=elapsed_s,
        calls=dict(Counter(proxy.counts)),
    )


def _script(options: argparse.Namespace) -> list[str]:
    """As many faults as there are runs of gpus, so that they last for about as long as the runs do."""
    times = math.ceil(options.reports / _GPUS / (len(FAULTS) - 1)) + 1
    return every_fault(times, calm_share=1 - options.faulty / 100, seed=options.seed)


def _fleet(address: str, folder: Path, options: argparse.Namespace, timeouts: httpx.Timeout) -> list[Soaked]:
    runs = math.ceil(options.reports / _GPUS / options.agents)
    with ThreadPoolExecutor(options.agents) as pool:
        agents = [
            pool.submit(soak, address, folder / name, runs=runs, gpus=_GPUS, name=name, timeouts=timeouts)
            for name in (f"node-{number}" for number in range(options.agents))
        ]
        return [agent.result() for agent in agents]


def _print(outcomes: Sequence[Outcome]) -> None:
    heads = (Column("", align="left"), *(Column(outcome.database, outcome.network) for outcome in outcomes))
    counted = ("sent", "stored", "twice", "missing", "left", "dead", "lost")
    rows = [[name, *(str(getattr(outcome, name)) for outcome in outcomes)] for name in counted]
    rows.append(["calls", *(str(sum(outcome.calls.values())) for outcome in outcomes)])
    rows.append(["seconds", *(f"{outcome.elapsed_s:.1f}" for outcome in outcomes)])
    rows.append(["reports/s", *(f"{outcome.reports_per_s:.0f}" for outcome in outcomes)])
    print(text_table(heads, rows, title="Reports through a bad network and a calm one"))
    print()
    faults = [[fault, *(str(outcome.calls.get(fault, 0)) for outcome in outcomes)] for fault in FAULTS]
    print(text_table(heads, faults, title="Calls by what was done to them"))


if __name__ == "__main__":
    sys.exit(main())
