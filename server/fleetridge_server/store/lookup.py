"""Devices and gpus by the names that people and programs call them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge.strict_json import printable_problem
from fleetridge_server.store.models import Device, DeviceName, Gpu
from fleetridge_server.store.upserts import in_chunks


def device_named(session: Session, name: str) -> Device | None:
    """
    The device that a driver calls so, or whose canonical name or slug this is, in this order; spelled exactly.

    A raw name comes first, so that every name that was ever reported reads back its own device.
    """
    if not is_storable(name):
        return None
    by_raw_name = select(Device).join(DeviceName, DeviceName.device_id == Device.id).where(DeviceName.name == name)
    for query in (by_raw_name, select(Device).where(Device.name == name), select(Device).where(Device.slug == name)):
        found = session.scalars(query).all()
        if len(found) == 1:
            return found[0]
    return None


def all_devices(session: Session) -> Sequence[Device]:
    """Every device that was ever reported."""
    return session.scalars(select(Device)).all()


def device_names(session: Session, device_ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Names that drivers gave some devices, each list sorted; empty for a device that no driver named."""
    names: dict[int, list[str]] = defaultdict(list)
    query = select(DeviceName.device_id, DeviceName.name).where(DeviceName.device_id.in_(device_ids))
    for device_id, name in session.execute(query):
        names[device_id].append(name)
    return {device_id: tuple(sorted(names[device_id])) for device_id in device_ids}


def names_of_devices(session: Session, device_ids: Collection[int]) -> dict[int, str]:
    """Canonical names of some devices."""
    found = session.execute(select(Device.id, Device.name).where(Device.id.in_(device_ids)))
    return {row.id: row.name for row in found}


def gpu_named(session: Session, identity: str, *, simulated: bool) -> Gpu | None:
    """The real or the made-up gpu with this identity, spelled exactly."""
    if not is_storable(identity):
        return None
    chosen = select(Gpu).where(Gpu.identity == identity, Gpu.simulated.is_(simulated), ~Gpu.quarantined)
    return session.scalars(chosen).one_or_none()


def rows_of_gpus(session: Session, identities: Collection[str], *, device_id: int, simulated: bool) -> dict[str, int]:
    """Rows of some gpus, most of which are of a device."""
    # Without the ORM, which takes twice as long for two columns of a whole fleet.
    query, connection = select(Gpu.identity, Gpu.id).where(Gpu.simulated.is_(simulated)), session.connection()
    rows = {
        name: row for name, row in connection.execute(query.where(Gpu.device_id == device_id)) if name in identities
    }
    for chunk in in_chunks(sorted(set(identities) - rows.keys())):
        rows.update((name, row) for name, row in connection.execute(query.where(Gpu.identity.in_(chunk))))
    return rows


def is_storable(text: str) -> bool:
    """Whether a text can be in the database at all; PostgreSQL refuses even to look for some others."""
    return text != "" and printable_problem(text) is None
