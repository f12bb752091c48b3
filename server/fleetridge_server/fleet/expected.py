"""
Expected hardware: the inventory that people import, and the rosters that nodes send.

By the inventory what never reported is missed, too. Each import replaces what was expected of its cluster.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, delete, func, insert, select
from sqlalchemy.orm import Session

from fleetridge.device_names import canonical_device_name
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Device, Gpu, Node
from fleetridge_server.db.verdict_tables import InventoryEntry
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.nodes import ExpectedNode, NodeRoster
from fleetridge_server.fleet.find import device_named
from fleetridge_server.intake.hardware import is_usable, upsert_devices
from fleetridge_server.verdicts.series import DeviceGroup, note_due

_INVENTORY = cast("Table", InventoryEntry.__table__)


@dataclass(frozen=True, slots=True)
class ExpectedGpu:
    """
    One line of an inventory.

    Attributes:
        gpu: its id; None where the line is about the node.
        device: by any of its names; None where nobody says.
        expected_gpus: how many gpus (of that device) the node has; None where nobody says.
    """

    node: str
    gpu: str | None = None
    device: str | None = None
    expected_gpus: int | None = None


def replace_inventory(session: Session, cluster: str, entries: Sequence[ExpectedGpu], at: datetime) -> None:
    """
    Expect these nodes and gpus of a cluster from now on, and nothing else.

    A device that nobody reported yet is added, so that what never reported can be missed. All devices that were or are
    expected there become due.
    """
    devices = _device_ids(session, {entry.device for entry in entries if entry.device is not None})
    before = set(session.scalars(select(InventoryEntry.device_id).where(InventoryEntry.cluster == cluster).distinct()))
    session.execute(delete(InventoryEntry).where(InventoryEntry.cluster == cluster))
    rows = {
        (entry.node, entry.gpu, device_id if entry.gpu is None else None): {
            "cluster": cluster,
            "node": entry.node,
            "gpu": entry.gpu,
            "device_id": device_id,
            "expected_gpus": entry.expected_gpus,
        }
        for entry in entries
        for device_id in [None if entry.device is None else devices[entry.device]]
    }
    for chunk in in_chunks(list(rows.values())):
        session.execute(insert(_INVENTORY), list(chunk))
    named = {device_id for device_id in (*before, *devices.values()) if device_id is not None}
    simulated = cluster == SIMULATED
    in_cluster = select(Gpu.device_id).where(Gpu.cluster == cluster, Gpu.simulated.is_(simulated)).distinct()
    due = {DeviceGroup(device_id, simulated) for device_id in (*named, *session.scalars(in_cluster))}
    note_due(session, due, at)


def shown_inventory(session: Session, cluster: str | None = None) -> list[tuple[InventoryEntry, str | None]]:
    """What is expected, with the name of each line's device, of one cluster or of all, by node and gpu."""
    query = select(InventoryEntry, Device.name).outerjoin(Device, Device.id == InventoryEntry.device_id)
    chosen = query if cluster is None else query.where(InventoryEntry.cluster == cluster)
    entry = InventoryEntry
    rows = session.execute(chosen.order_by(entry.cluster, entry.node, entry.gpu.is_not(None), entry.gpu, entry.id))
    return [(line, device) for line, device in rows]


def expected_nodes(session: Session, device_group: DeviceGroup) -> list[ExpectedNode]:
    """
    What is expected of one device, as the engine takes it.

    A line without a device is about the device whose gpus its node has; where the node has none, about the one of
    which its cluster has most.
    """
    is_simulated = InventoryEntry.cluster == SIMULATED
    mine = is_simulated if device_group.simulated else ~is_simulated
    entries = session.scalars(select(InventoryEntry).where(mine).order_by(InventoryEntry.id)).all()
    if not entries:
        return []
    unsaid = [entry for entry in entries if entry.device_id is None]
    guessed = _guessed_devices(session, unsaid, simulated=device_group.simulated) if unsaid else {}
    elsewhere = _of_other_devices(session, device_group) if any(entry.gpu is not None for entry in entries) else set()
    nodes: dict[NodeName, list[InventoryEntry]] = defaultdict(list)
    for entry in entries:
        device_id = guessed.get(entry.id) if entry.device_id is None else entry.device_id
        if device_id == device_group.device_id:
            nodes[NodeName(entry.cluster, entry.node)].append(entry)
    return [_expected(node, own, elsewhere) for node, own in nodes.items()]


def _expected(node: NodeName, entries: Iterable[InventoryEntry], elsewhere: set[str]) -> ExpectedNode:
    gpu_ids = frozenset(entry.gpu for entry in entries if entry.gpu is not None) - elsewhere
    counts = [entry.expected_gpus for entry in entries if entry.expected_gpus is not None]
    return ExpectedNode(node, gpu_ids, max(counts, default=None))


def _device_ids(session: Session, names: set[str]) -> dict[str, int]:
    known = {name: device.id for name in names if (device := device_named(session, name)) is not None}
    new = {name: canonical_device_name(name) or name for name in names - known.keys()}
    added = upsert_devices(session, new.values())
    return known | {name: added[canonical] for name, canonical in new.items()}


def _guessed_devices(session: Session, unsaid: Sequence[InventoryEntry], *, simulated: bool) -> dict[int, int]:
    """Devices of lines that do not say, by the line's id; the one with most gpus, of two the older one."""
    clusters = {entry.cluster for entry in unsaid}
    count = func.count().label("gpus")
    of_gpus = (
        select(Gpu.cluster, Node.name, Gpu.device_id, count)
        .outerjoin(Node, Node.id == Gpu.node_id)
        .where(Gpu.cluster.in_(clusters), Gpu.simulated.is_(simulated), ~Gpu.quarantined)
        .group_by(Gpu.cluster, Node.name, Gpu.device_id)
    )
    of_node: dict[tuple[str, str | None], dict[int, int]] = defaultdict(dict)
    of_cluster: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for cluster, name, device_id, gpus in session.execute(of_gpus):
        of_node[cluster, name][device_id] = gpus
        of_cluster[cluster][device_id] += gpus
    guessed: dict[int, int] = {}
    for entry in unsaid:
        counts = of_node.get((entry.cluster, entry.node)) or of_cluster.get(entry.cluster)
        if counts:
            guessed[entry.id] = min(counts, key=lambda device_id: (-counts[device_id], device_id))
    return guessed


def _of_other_devices(session: Session, device_group: DeviceGroup) -> set[str]:
    """Gpus of the inventory that reported, as another device than the one they are expected to be."""
    query = (
        select(Gpu.identity)
        .join(InventoryEntry, InventoryEntry.gpu == Gpu.identity)
        .where(Gpu.simulated.is_(device_group.simulated), Gpu.device_id != device_group.device_id, ~Gpu.quarantined)
    )
    return set(session.scalars(query))


def rosters_of(
    session: Session, device_group: DeviceGroup, gpu_ids: Collection[str], as_of: datetime
) -> list[NodeRoster]:
    """
    Newest complete roster of every node, with its gpus of one device.

    Args:
        session: to read with.
        device_group: of which device.
        gpu_ids: gpus that are known to be of it; others count where the roster says that they are.
        as_of: rosters that are newer say nothing of that time.
    """
    name = session.scalars(select(Device.name).where(Device.id == device_group.device_id)).one()
    in_group = Node.cluster == SIMULATED if device_group.simulated else Node.cluster != SIMULATED
    query = select(Node.cluster, Node.name, Node.roster_seen, Node.roster).where(
        in_group, Node.roster_seen.is_not(None), Node.roster_seen <= as_of
    )
    return [
        NodeRoster(
            NodeName(row.cluster, row.name),
            row.roster_seen,
            _listed(row.roster or (), name, gpu_ids),
            complete=True,
            slots={
                entry["gpu_id"]: entry["pci_bus_id"].casefold()
                for entry in row.roster or ()
                if entry["gpu_id"] is not None and entry["pci_bus_id"]
            },
        )
        for row in session.execute(query)
    ]


def slots_of(session: Session, device_group: DeviceGroup) -> dict[str, str | None]:
    """Bus address of each gpu of a device, as it said last."""
    query = select(Gpu.identity, Gpu.pci_bus_id).where(
        Gpu.device_id == device_group.device_id, Gpu.simulated.is_(device_group.simulated)
    )
    found = session.connection().execute(query)
    return {identity: None if bus is None else bus.casefold() for identity, bus in found}


def _listed(roster: Collection[Mapping[str, Any]], device: str, gpu_ids: Collection[str]) -> frozenset[str]:
    return frozenset(
        entry["gpu_id"]
        for entry in roster
        if entry["gpu_id"] is not None
        and is_usable(entry)
        and (entry["gpu_id"] in gpu_ids or canonical_device_name(entry["device"] or "") in ("", device))
    )
