"""What `bench/server.py` puts before a server: a fleet that is there already, and clients that post more."""

from __future__ import annotations

import gzip
import json
import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import httpx
from sqlalchemy import select
from storage import full_report
from stored_fleet import store_fleet

from fleetridge_server.evaluating.evaluator import Evaluator
from fleetridge_server.simulated_fleet import Fault, FleetPlan, simulated_reports
from fleetridge_server.simulating.plan import Ask, plan_of
from fleetridge_server.simulating.silicon import silicon_of
from fleetridge_server.simulating.wire import node_reports
from fleetridge_server.store.current import keep_values
from fleetridge_server.store.database import Database, open_database
from fleetridge_server.store.models import Gpu
from fleetridge_server.store.upserts import in_chunks

DEVICE = "H200"

_GPUS_PER_NODE = 8
_POINTS = 60
_NOISE = 0.005
_ONE_SLOW_IN = 100
_KEEP_AT_ONCE = 200
_SEED = 7
_TIMEOUT_S = 60

# Far more than a server takes, so that no report has to be sent twice.
_MOST_REPORTS_PER_S = 800


def fill(url: str, gpus: int, reports: int) -> str:
    """Write a fleet and what is kept of it; the id of one of its gpus."""
    database = open_database(url, statement_timeout_ms=0)
    first = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=reports)
    faults = {position: Fault("silent", 0.08) for position in range(0, gpus, _ONE_SLOW_IN)}
    plan = FleetPlan(gpus=gpus, noise=_NOISE, faults=faults, spread=_NOISE, reports=reports)
    population = store_fleet(database, DEVICE, simulated_reports(plan, first, random.Random(_SEED)))  # noqa: S311 # made up
    database.analyze()
    gpu_id = _keep(database)
    Evaluator(database).continue_course(population)
    database.analyze()
    database.close()
    return gpu_id


def _keep(database: Database) -> str:
    with database.reading() as session:
        rows = session.execute(select(Gpu.id, Gpu.identity).order_by(Gpu.id)).all()
    for chunk in in_chunks([row.id for row in rows], _KEEP_AT_ONCE):
        with database.writing() as session:
            keep_values(session, chunk)
    return str(rows[len(rows) // 2].identity)


def write_calls(folder: Path, clients: int, seconds: float) -> list[Path]:
    """Files of compressed calls, one for each client: each call is a node of its own, measured now."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    silicon = silicon_of(DEVICE)
    if silicon is None:
        raise SystemExit(f"the simulator has no {DEVICE} any more")
    plan = plan_of(Ask(silicon, _GPUS_PER_NODE, 1, seed=1, noise=_NOISE, until=now), [])
    sent = [
        full_report(report, _POINTS).model_dump(mode="json", exclude_unset=True) for report in node_reports(plan, 0)
    ]
    text = json.dumps({"sent_at": now.isoformat(), "reports": sent})
    names = [sent[0]["node"]["name"], *(own["gpu"]["uuid"] for own in sent)]
    ids = [own["report_id"] for own in sent]
    calls = int(_MOST_REPORTS_PER_S * seconds / _GPUS_PER_NODE / clients) + 1
    files = []
    for client in range(clients):
        files.append(folder / f"client-{client}")
        with files[-1].open("wb") as file:
            for call in range(calls):
                own = text
                for name in names:
                    own = own.replace(f'"{name}"', f'"{name}-{client}-{call}"')
                for report_id in ids:
                    own = own.replace(report_id, str(uuid4()))
                body = gzip.compress(own.encode(), 6)
                file.write(len(body).to_bytes(4, "big") + body)
    return files


def last_calls(file: Path, most: int) -> list[bytes]:
    """The last calls of a file, which no client came to."""
    content, calls = memoryview(file.read_bytes()), []
    while content:
        size = int.from_bytes(content[:4], "big")
        calls.append(bytes(content[4 : 4 + size]))
        content = content[4 + size :]
    return calls[-most:]


def post(address: str, bodies: Path, seconds: float) -> None:
    """Post the calls of a file for so long, and print how many reports were taken."""
    taken = 0
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    with httpx.Client(base_url=address, timeout=_TIMEOUT_S) as client, bodies.open("rb") as file:
        started = time.monotonic()
        while time.monotonic() - started < seconds and (size := file.read(4)):
            answer = client.post("/reports", content=file.read(int.from_bytes(size, "big")), headers=headers)
            if answer.status_code == httpx.codes.OK:
                outcomes = [own["outcome"] for own in answer.json()["results"]]
                if set(outcomes) != {"created"}:
                    raise SystemExit(f"the server does not take the bench's reports: {answer.text[:500]}")
                taken += len(outcomes)
        spent_s = time.monotonic() - started
    print(json.dumps({"reports": taken, "seconds": spent_s}))
