"""
Calls that benchmarks of a server post: full reports of a fleet's nodes, made before so that the clients cost little.

    python bench/server_calls.py ADDRESS FILE --seconds S [--reports-per-s N]
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import itertools
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from server_load import DEVICE
from sqlalchemy import select
from storage import full_report

from fleetridge.device_names import gpu_identity
from fleetridge_server.db.database import open_database
from fleetridge_server.db.tables import Gpu, Node, Report
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.simulate.plan import Ask, plan_of, product_named
from fleetridge_server.simulate.wire import node_reports

GPUS_PER_NODE = 8

_POINTS = 60
_NOISE = 0.005
_TIMEOUT_S = 60
_SIZE_BYTES = 4

# Far more than a server takes, so that no report has to be sent twice.
_MOST_REPORTS_PER_S = 1600

# The newest reports that are there are a day old; however many calls there are, they lie between those and now.
_NEW_SPAN = timedelta(hours=20)

_HEADERS = {"Content-Encoding": "gzip", "Content-Type": "application/json"}


def write_calls(
    folder: Path, url: str, clients: int, seconds: float, *, reports_per_s: float = _MOST_REPORTS_PER_S
) -> list[Path]:
    """
    Files of compressed calls, one for each client: a node's reports each, of the nodes and gpus that are there.

    Every client has nodes of its own, and its calls go through them again and again, each time measured later. They
    are as many as are posted in so many seconds at that rate.
    """
    nodes, memory_bytes = _fleet(url)
    calls = int(reports_per_s * seconds / GPUS_PER_NODE / clients) + 1
    rounds = -(-calls // max(1, len(nodes) // clients))
    until = datetime.now(timezone.utc).replace(microsecond=0)
    times = [until - _NEW_SPAN + _NEW_SPAN * turn / rounds for turn in range(rounds)]
    reports = full_reports(memory_bytes)
    files = []
    for client in range(clients):
        own = itertools.product(times, list(nodes.items())[client::clients])
        files.append(folder / f"client-{client}")
        with files[-1].open("wb") as file:
            for measured_at, (node, gpus) in itertools.islice(own, calls):
                body = gzip.compress(json.dumps(call_of(reports, node, gpus, measured_at)).encode(), 6)
                file.write(len(body).to_bytes(_SIZE_BYTES, "big") + body)
    return files


def calls_in(file: Path) -> Iterator[bytes]:
    """Calls of a file."""
    with file.open("rb") as stream:
        while size := stream.read(_SIZE_BYTES):
            yield stream.read(int.from_bytes(size, "big"))


def posting(
    addresses: Sequence[str], files: Sequence[Path], seconds: float, *, reports_per_s: float | None = None
) -> list[subprocess.Popen[str]]:
    """Clients that have begun to post a file each, each to one of the servers; the rate is of each, None for any."""
    pace = [] if reports_per_s is None else ["--reports-per-s", str(reports_per_s)]
    clients = []
    for number, file in enumerate(files):
        address = addresses[number % len(addresses)]
        command = [sys.executable, __file__, address, str(file), "--seconds", str(seconds), *pace]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))  # noqa: S603 # this file
    return clients


def told(clients: Sequence[subprocess.Popen[str]]) -> list[dict[str, float]]:
    """What clients say in the end: reports `taken`, `seconds`, `client_cpu_s`."""
    return [json.loads(client.communicate()[0]) for client in clients]


def rate(clients: Sequence[Mapping[str, float]]) -> float:
    """Reports a second that clients had acknowledged."""
    return sum(own["taken"] for own in clients) / max(own["seconds"] for own in clients)


def main() -> None:
    """Post, and print how much was taken."""
    parser = argparse.ArgumentParser(description="Posts calls that were made before.")
    parser.add_argument("address", help="of the server")
    parser.add_argument("file", type=Path, help="of calls")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--reports-per-s", type=float, help="at a steady rate; as fast as they are taken by default")
    options = parser.parse_args()
    every_s = 0.0 if options.reports_per_s is None else GPUS_PER_NODE / options.reports_per_s
    _post(options.address, options.file, options.seconds, every_s)


def _post(address: str, file: Path, seconds: float, every_s: float) -> None:
    taken = 0
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=_TIMEOUT_S)
    started, cpu_s = time.monotonic(), time.process_time()
    for number, body in enumerate(calls_in(file)):
        time.sleep(max(0.0, started + number * every_s - time.monotonic()))
        if time.monotonic() - started >= seconds:
            break
        connection.request("POST", "/reports", body, _HEADERS)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status == http.client.OK:
            created = text.count(b'"created"')
            if created != GPUS_PER_NODE:
                raise SystemExit(f"the server does not take the bench's reports: {text[:500]!r}")
            taken += created
    spent_s = time.monotonic() - started
    connection.close()
    print(json.dumps({"taken": taken, "seconds": spent_s, "client_cpu_s": time.process_time() - cpu_s}))


def _fleet(url: str) -> tuple[dict[str, list[str]], int | None]:
    """Ids of the gpus of each node, and the memory of a gpu, without which no new report would go on with the old."""
    database = open_database(url)
    found: dict[str, list[str]] = defaultdict(list)
    with database.reading() as session:
        query = select(Node.name, Gpu.identity).join(Gpu, Gpu.node_id == Node.id).order_by(Gpu.id)
        for node, gpu in session.execute(query):
            found[node].append(gpu)
        memory_bytes = session.scalars(select(Report.memory_bytes).limit(1)).one()
    database.close()
    return {node: gpus for node, gpus in found.items() if _is_whole(node, gpus)}, memory_bytes


def _is_whole(node: str, gpus: Sequence[str]) -> bool:
    """Whether a node has all its gpus, and none whose number of zeros alone would be taken for no id."""
    own = [gpu_identity(gpu, cluster=SIMULATED, node=node, pci_bus_id=None, index=0) for gpu in gpus]
    return len(gpus) == GPUS_PER_NODE and own == list(gpus)


def full_reports(memory_bytes: int | None = None) -> list[dict[str, Any]]:
    """Full reports of the gpus of one node that does not exist; a gpu's memory is not known where none is given."""
    silicon = product_named(DEVICE)
    if silicon is None:
        raise SystemExit(f"the simulator has no {DEVICE} any more")
    plan = plan_of(Ask(silicon, GPUS_PER_NODE, 1, seed=1, noise=_NOISE, until=datetime.now(timezone.utc)), [])
    sent = [full_report(own, _POINTS).model_dump(mode="json", exclude_unset=True) for own in node_reports(plan, 0)]
    return [{**own, "gpu": {**own["gpu"], "memory_bytes": memory_bytes}} for own in sent]


def call_of(
    reports: Sequence[Mapping[str, Any]], node: str, gpus: Sequence[str], measured_at: datetime
) -> dict[str, Any]:
    """Those reports under the names of a node that is there."""
    run_id = str(uuid4())
    times = {"measured_from": (measured_at - timedelta(seconds=75)).isoformat(), "measured_to": measured_at.isoformat()}
    sent = []
    for report, gpu in zip(reports, gpus, strict=True):
        roster = [{**entry, "uuid": uuid} for entry, uuid in zip(report["run"]["roster"], gpus, strict=True)]
        own = {
            **report,
            **times,
            "report_id": str(uuid4()),
            "run": {**report["run"], "run_id": run_id, "roster": roster},
            "node": {**report["node"], "name": node},
            "gpu": {**report["gpu"], "uuid": gpu},
        }
        sent.append({name: own[name] for name in report})
    return {"sent_at": datetime.now(timezone.utc).isoformat(), "reports": sent}


if __name__ == "__main__":
    main()
