"""Fleets in a server that were evaluated: reports through its API, evaluations by a direct call, never by waiting."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import select

from fleetridge_server.db.database import open_database
from fleetridge_server.db.tables import Device
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.fleet.expected import ExpectedGpu, replace_inventory
from fleetridge_server.verdicts.series import DeviceGroup
from support.reports import compute_roof, make_report, memory_roof

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

# Recent, so that nothing is stale; whole hours, so that a day's reports have one time.
NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)

SOUND = 845.0
SLOW = 720.0


def evaluate(database_url: str, *, simulated: bool = False, at: datetime | None = None) -> None:
    """Evaluate every device once, as of now unless another time is given."""
    with closing(open_database(database_url)) as database:
        evaluator = Evaluator(database) if at is None else Evaluator(database, now=lambda: at)
        with database.reading() as session:
            devices = session.scalars(select(Device.id)).all()
        for device_id in devices:
            evaluator.evaluate_now(DeviceGroup(device_id, simulated))


def expect(database_url: str, *entries: ExpectedGpu, cluster: str = "east") -> None:
    """Import an inventory."""
    with closing(open_database(database_url)) as database, database.writing() as session:
        replace_inventory(session, cluster, entries, NOW)


def gpu_id(node: str, index: int) -> str:
    """Id of a gpu of these fleets."""
    return f"GPU-{node}-{index}"


def runs(
    node: str, pis_tflops: Sequence[float], *, days: int = 3, until: datetime = NOW, **changes: Any
) -> list[dict[str, Any]]:
    """One report a day of each gpu of a node, the newest an hour before `until`; one gpu for each rate."""
    reports = []
    for day in range(days):
        end = until - HOUR - day * DAY
        for index, pi in enumerate(pis_tflops):
            reports.append(
                make_report(
                    **{
                        "gpu__uuid": gpu_id(node, index),
                        "gpu__index": index,
                        "gpu__pci_bus_id": f"0000:{index:02X}:00.0",
                        "node__name": node,
                        "run__roster": None,
                        "run__roster_complete": None,
                        "measured_from": (end - timedelta(seconds=20)).isoformat(),
                        "measured_to": end.isoformat(),
                        "roofs": [compute_roof(pi), memory_roof(4430.0)],
                        **changes,
                    }
                )
            )
    return reports
