"""Devices and the names by which they go."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import cast

from sqlalchemy import Table, select, tuple_
from sqlalchemy.orm import Session

from fleetridge.identity import device_slug, distinct_device_slug
from fleetridge_server.store.models import Device, DeviceName
from fleetridge_server.store.upserts import insert_ignoring

_DEVICES = cast("Table", Device.__table__)
_NAMES = cast("Table", DeviceName.__table__)


def record_devices(session: Session, names: Iterable[str]) -> dict[str, int]:
    """Ids of devices by canonical name; those that are new are added."""
    wanted = sorted(set(names))
    found = _ids(session, wanted)
    for attempt in count():
        missing = [name for name in wanted if name not in found]
        if not missing:
            break
        rows = [{"name": name, "slug": _slug(name, attempt)} for name in missing]
        session.execute(insert_ignoring(session, _DEVICES), rows)
        found |= _ids(session, missing)
    return found


def _slug(name: str, attempt: int) -> str:
    """
    Slug to try for a new device: the plain one, then one with digits of its hash, then that one numbered.

    Any of them may be taken, by chance or by design, since names are the senders'. There are always more of them than
    devices, so that one is free.
    """
    if attempt == 0:
        return device_slug(name)
    return distinct_device_slug(name) if attempt == 1 else f"{distinct_device_slug(name)}-{attempt}"


def record_names(session: Session, raw_names: Iterable[tuple[str, int]]) -> None:
    """Keep the names that drivers gave, each with the id of its device."""
    wanted = set(raw_names)
    known = select(DeviceName.name, DeviceName.device_id).where(
        tuple_(DeviceName.name, DeviceName.device_id).in_(wanted)
    )
    new = sorted(wanted - {(name, device_id) for name, device_id in session.connection().execute(known)})
    if new:
        session.execute(
            insert_ignoring(session, _NAMES), [{"name": name, "device_id": device_id} for name, device_id in new]
        )


def _ids(session: Session, names: list[str]) -> dict[str, int]:
    found = session.connection().execute(select(Device.name, Device.id).where(Device.name.in_(names)))
    return {name: device_id for name, device_id in found}  # noqa: C416 # dict() cannot type rows
