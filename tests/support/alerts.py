"""Alerts as evaluations leave them in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from fleetridge_server.db.tables import Device
from fleetridge_server.db.verdict_tables import Alert
from support.times import NOW

if TYPE_CHECKING:
    from datetime import datetime

    from fleetridge_server.db.database import Database


def open_alerts(database: Database, *gpus: str, **changes: Any) -> list[int]:
    """Open an alert for each gpu; their ids."""
    with database.writing() as session:
        device_id = session.scalar(select(Device.id))
        if device_id is None:
            device = Device(name="H200", slug="h200")
            session.add(device)
            session.flush()
            device_id = device.id
        alerts = [
            Alert(
                **{
                    "kind": "gpu",
                    "subject": gpu,
                    "open_key": f"gpu {gpu}",
                    "device_id": device_id,
                    "simulated": False,
                    "cluster": "east",
                    "node": "n1",
                    "gpu": gpu,
                    "state": "outlier",
                    "summary": f"{gpu} is slow",
                    "details": {},
                    "opened_at": NOW,
                    "opened_by": 1,
                    "last_seen": NOW,
                    **changes,
                }
            )
            for gpu in gpus
        ]
        session.add_all(alerts)
        session.flush()
        return [alert.id for alert in alerts]


def resolve_alerts(database: Database, *alert_ids: int, at: datetime = NOW) -> None:
    """Resolve some alerts."""
    with database.writing() as session:
        chosen = update(Alert).where(Alert.id.in_(alert_ids))
        session.execute(chosen.values(open_key=None, resolved_at=at, resolved_by=2))
