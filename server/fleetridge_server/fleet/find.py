"""Devices and gpus by name, and what there is to choose from."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge.device_names import folded_identity
from fleetridge.strict_json import printable_problem
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Device, DeviceNameRow, Gpu, Node, Report
from fleetridge_server.db.verdict_tables import InventoryEntry
from fleetridge_server.engine.cohort import SIMULATED, Span
from fleetridge_server.verdicts.stored import evaluation_at


def device_named(session: Session, name: str) -> Device | None:
    """
    The device that a driver calls so, or whose canonical name or slug this is, in this order; spelled exactly.

    A raw name comes first, so that every name that was ever reported reads back its own device.
    """
    if not is_storable(name):
        return None
    by_raw_name = (
        select(Device).join(DeviceNameRow, DeviceNameRow.device_id == Device.id).where(DeviceNameRow.name == name)
    )
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
    query = select(DeviceNameRow.device_id, DeviceNameRow.name).where(DeviceNameRow.device_id.in_(device_ids))
    for device_id, name in session.execute(query):
        names[device_id].append(name)
    return {device_id: tuple(sorted(names[device_id])) for device_id in device_ids}


def names_of_devices(session: Session, device_ids: Collection[int]) -> dict[int, str]:
    """Canonical names of some devices."""
    found = session.execute(select(Device.id, Device.name).where(Device.id.in_(device_ids)))
    return {row.id: row.name for row in found}


def gpu_named(session: Session, identity: str, *, simulated: bool) -> Gpu | None:
    """The real or the made-up gpu with this identity, in any spelling of a UUID."""
    if not is_storable(identity):
        return None
    chosen = select(Gpu).where(
        Gpu.identity == folded_identity(identity), Gpu.simulated.is_(simulated), ~Gpu.quarantined
    )
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


@dataclass(frozen=True, slots=True)
class DeviceChoices:
    """Values that gpus of a device have, each in order: drivers of newest reports, dtypes of the newest evaluation."""

    clusters: tuple[str, ...]
    drivers: tuple[str, ...]
    dtypes: tuple[str, ...]


def device_choices(session: Session, device: str, *, simulated: bool) -> DeviceChoices:
    """What the gpus of a device, by its slug, can be chosen by now."""
    of_device = (Device.slug == device, Gpu.simulated.is_(simulated), ~Gpu.quarantined)
    gpus = select(Gpu.id).join(Device, Device.id == Gpu.device_id).where(*of_device)
    clusters = select(Gpu.cluster).where(Gpu.id.in_(gpus)).distinct()
    drivers = (
        select(Report.driver)
        .join(Gpu, Gpu.last_report_id == Report.id)
        .where(Gpu.id.in_(gpus), Report.driver.is_not(None))
        .distinct()
    )
    span = Span(datetime.now(timezone.utc), simulated=simulated)
    device_id = session.scalar(select(Device.id).where(Device.slug == device))
    ref = None if device_id is None else evaluation_at(session, device_id, span, explicit=False)
    cohorts = () if ref is None else ref.body.cohorts
    return DeviceChoices(
        clusters=tuple(sorted(session.scalars(clusters))),
        drivers=tuple(sorted(driver for driver in session.scalars(drivers) if driver is not None)),
        dtypes=tuple(sorted({own.roof.dtype for own in cohorts if own.roof.kind == "compute"})),
    )


def is_expected(
    session: Session,
    *,
    gpu_id: str | None,
    cluster: str | None,
    node: str | None,
    rack: str | None,
    driver: str | None = None,
) -> bool:
    """
    Whether a gpu or node that reported, or that the inventory expects, fits all that are given.

    The inventory knows no racks and no drivers, and a gpu may be marked before it is where the scope says.
    """
    if driver is not None and not _knows_driver(session, driver, cluster):
        return False
    if gpu_id is not None and not _knows_gpu(session, gpu_id, simulated=cluster == SIMULATED):
        return False
    if cluster is None:
        return True
    nodes = select(Node).where(Node.cluster == cluster, ~Node.quarantined)
    if node is not None:
        nodes = nodes.where(Node.name == node)
    if any(rack in (None, own.labels.get("rack")) for own in session.scalars(nodes)):
        return True
    entries = select(InventoryEntry.id).where(InventoryEntry.cluster == cluster)
    if node is not None:
        entries = entries.where(InventoryEntry.node == node)
    in_cluster = select(Gpu.id).where(Gpu.cluster == cluster, Gpu.simulated.is_(cluster == SIMULATED), ~Gpu.quarantined)
    return rack is None and any(
        session.scalars(query.limit(1)).first() is not None
        for query in ((entries,) if node is not None else (entries, in_cluster))
    )


def _knows_driver(session: Session, driver: str, cluster: str | None) -> bool:
    """Whether a gpu, of a cluster where one is given, has a driver by its newest report."""
    known = (
        select(Gpu.id)
        .join(Report, Report.id == Gpu.last_report_id)
        .where(Report.driver == driver, Gpu.simulated.is_(cluster == SIMULATED), ~Gpu.quarantined)
    )
    if cluster is not None:
        known = known.where(Gpu.cluster == cluster)
    return session.scalars(known.limit(1)).first() is not None


def _knows_gpu(session: Session, gpu_id: str, *, simulated: bool) -> bool:
    known = select(Gpu.id).where(
        Gpu.identity == folded_identity(gpu_id), Gpu.simulated.is_(simulated), ~Gpu.quarantined
    )
    is_simulated = InventoryEntry.cluster == SIMULATED
    expected = select(InventoryEntry.id).where(
        InventoryEntry.gpu == folded_identity(gpu_id), is_simulated if simulated else ~is_simulated
    )
    return any(session.scalars(query.limit(1)).first() is not None for query in (known, expected))
