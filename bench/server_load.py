"""
What `bench/server.py` and `bench/reading.py` put before a server: a large fleet that is there already, and evaluated.

Some gpus as the simulator makes them, the others as copies by SQL. Left out is what no answer here reads: documents of
all but one gpu in a hundred (theirs are noise), rosters, names of the device, and phases of a report.
"""

from __future__ import annotations

import os
import random
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the fleets of the tests

from multiplied_fleet import add_documents, multiply
from sqlalchemy import select
from stored_fleet import store_fleet

from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Gpu
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.intake.hardware import refresh_measured_at
from fleetridge_server.simulate.faults import Fault
from support.simulated_fleet import FleetPlan, simulated_reports

DEVICE = "H200"

_NOISE = 0.005
_ONE_SLOW_IN = 100
_GPUS_AT_ONCE = 200
_SEED = 7

# Enough that no two of a page are copies of one.
_MOST_SIMULATED = 1000

# What a full report takes once it is packed (`bench/storage.py`).
_DOCUMENT_BYTES = 4096
_DOCUMENTS_OF_ONE_IN = 100


def fill(url: str, gpus: int, reports: int) -> str:
    """Write a fleet and evaluate it; the id of one of its gpus."""
    database = open_database(url, statement_timeout_ms=0)
    first = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=reports)
    simulated = min(gpus, _MOST_SIMULATED)
    faults = {position: Fault("silent", 0.08) for position in range(0, simulated, _ONE_SLOW_IN)}
    plan = FleetPlan(gpus=simulated, noise=_NOISE, faults=faults, spread=_NOISE, reports=reports)
    device_group = store_fleet(database, DEVICE, simulated_reports(plan, first, random.Random(_SEED)))  # noqa: S311 # made up
    database.analyze()
    gpu_id = _measured(database)
    if gpus > simulated:
        multiply(database, gpus)
    add_documents(database, os.urandom(_DOCUMENT_BYTES), of_one_in=_DOCUMENTS_OF_ONE_IN)
    database.analyze()
    Evaluator(database).evaluate_now(device_group)
    database.analyze()
    database.close()
    return gpu_id


def _measured(database: Database) -> str:
    """Say of all gpus when they were measured, as storing reports would have; the id of one of them."""
    with database.reading() as session:
        rows = session.execute(select(Gpu.id, Gpu.identity).order_by(Gpu.id)).all()
    for chunk in in_chunks([row.id for row in rows], _GPUS_AT_ONCE):
        with database.writing() as session:
            refresh_measured_at(session, chunk)
    return str(rows[len(rows) // 2].identity)
