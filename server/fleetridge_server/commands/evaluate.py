"""The command that evaluates now, or as of a time of the past."""

import argparse
from contextlib import closing
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.schema import check_schema
from fleetridge_server.db.tables import Device, Gpu
from fleetridge_server.db.verdict_tables import InventoryEntry, StoredEvaluation
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.gpu_state import STATES
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.fleet.find import device_named
from fleetridge_server.settings import Settings
from fleetridge_server.verdicts.save import SupersededError
from fleetridge_server.verdicts.series import DeviceGroup


class UnknownDeviceError(ValueError):
    """No device has the name; the message says where names are listed."""


def evaluate(options: argparse.Namespace, settings: Settings) -> int:
    """Run the command; its exit code. Raises UnknownDeviceError: no device has that name."""
    with closing(open_database(settings.database_url)) as database:
        check_schema(database.engine)
        evaluator = Evaluator(database, settings.measured_every)
        for name, device_group in _chosen(database, options.device):
            print(f"{name}: {_evaluated(evaluator, device_group, options.as_of)}")
    return 0


def _chosen(database: Database, device: str | None) -> list[tuple[str, DeviceGroup]]:
    """Device groups to judge, each with what to call it."""
    with database.reading() as session:
        named = None if device is None else device_named(session, device)
        if device is not None and named is None:
            raise UnknownDeviceError(
                f"no device is called {device!r}; GET /devices lists them all with their other names"
            )
        device_groups = _device_groups(session)
        names = {row.id: row.name for row in session.execute(select(Device.id, Device.name))}
    return [
        (f"{names[own.device_id]} ({SIMULATED})" if own.simulated else names[own.device_id], own)
        for own in sorted(device_groups)
        if named is None or own.device_id == named.id
    ]


def _device_groups(session: Session) -> set[DeviceGroup]:
    seen = select(Gpu.device_id, Gpu.simulated).distinct()
    expected = select(InventoryEntry.device_id, InventoryEntry.cluster == SIMULATED).distinct()
    expected = expected.where(InventoryEntry.device_id.is_not(None))
    rows = (row for query in (seen, expected) for row in session.execute(query))
    return {DeviceGroup(device_id, bool(simulated)) for device_id, simulated in rows if device_id is not None}


def _evaluated(evaluator: Evaluator, device_group: DeviceGroup, as_of: datetime | None) -> str:
    if as_of is not None:
        evaluation_id = evaluator.evaluate_past(device_group, as_of)
    else:
        try:
            evaluation_id = evaluator.evaluate_now(device_group).evaluation_id
        except SupersededError as error:
            return str(error)
    with evaluator.database.reading() as session:
        stored = session.get_one(StoredEvaluation, evaluation_id)
    counts = ", ".join(f"{stored.counts[state]} {state}" for state in STATES if state in stored.counts)
    return f"as of {stored.as_of:%Y-%m-%d %H:%M:%S} UTC {counts or 'no gpus'}"
