"""
Rows of nodes, gpus and devices that reports name, brought up to date whatever the order of arrival.

Everything that a row says comes from the newest report that says it, by ordering time, then by the end of the
measurement by the node's own clock, then by report id; so an old report may come late. A report that does not know a
thing (a failed one often knows no more than a UUID) takes no knowledge away.

A report in quarantine says nothing: what it names gets a row, so that it can be referred to, and a row of which nothing
else is known is not shown.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Any, TypeVar, cast
from uuid import UUID

from sqlalchemy import Table, func, select, tuple_, update
from sqlalchemy.orm import Session

from fleetridge.device_names import canonical_device_name, device_slug, distinct_device_slug, gpu_identity
from fleetridge.report import LOST, RosterGpu
from fleetridge.report import Gpu as ReportedGpu
from fleetridge.report import Node as ReportedNode
from fleetridge_server.db.rows import Row, insert_ignoring, insert_rows, locked_rows, update_rows
from fleetridge_server.db.tables import (
    Device,
    DeviceCertainty,
    DeviceNameRow,
    Gpu,
    Node,
    Report,
    is_trusted,
    is_undisputed,
)
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.intake.examine import Accepted

_DEVICES = cast("Table", Device.__table__)
_NAMES = cast("Table", DeviceNameRow.__table__)


def upsert_devices(session: Session, names: Iterable[str]) -> dict[str, int]:
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


def upsert_device_names(session: Session, raw_names: Iterable[tuple[str, int]]) -> None:
    """Keep the names that drivers gave, each with the id of its device."""
    wanted = set(raw_names)
    known = select(DeviceNameRow.name, DeviceNameRow.device_id).where(
        tuple_(DeviceNameRow.name, DeviceNameRow.device_id).in_(wanted)
    )
    new = sorted(wanted - {(name, device_id) for name, device_id in session.connection().execute(known)})
    if new:
        session.execute(
            insert_ignoring(session, _NAMES), [{"name": name, "device_id": device_id} for name, device_id in new]
        )


def _ids(session: Session, names: list[str]) -> dict[str, int]:
    found = session.connection().execute(select(Device.name, Device.id).where(Device.name.in_(names)))
    return {name: device_id for name, device_id in found}  # noqa: C416 # dict() cannot type rows


NodeKey = tuple[str, str]
GpuKey = tuple[str, bool]

_NODES = cast("Table", Node.__table__)
_GPUS = cast("Table", Gpu.__table__)
_UnitKey = TypeVar("_UnitKey", GpuKey, NodeKey)

# Label of a node that says where it stands.
RACK_LABEL = "rack"

# What is known of a gpu beside its place, which is always that of the newest report.
_FACTS = ("pci_bus_id", "architecture", "memory_bytes", "sm_count", "mig_profile", "partition")
_ROSTER = ("roster", "roster_seen", "roster_report_id", "roster_rank")

# Older than any report that counts, so that whatever one says wins.
_UNSEEN: Row = {"first_seen": None, "last_seen": None, "last_rank": "", "quarantined": True}

# A report that names the device says of a gpu without a profile that it is whole; others do not know.
_OF_PARTS = frozenset({"mig_profile", "partition"})


def node_key(accepted: Accepted) -> NodeKey | None:
    """Cluster and name of a report's node, None where an import never said."""
    node = accepted.report.node
    return None if node.name is None else (node.cluster, node.name)


def gpu_key(accepted: Accepted) -> GpuKey | None:
    """Identity of a report's gpu and whether it is made up, None where the report is about the node."""
    return None if accepted.gpu_id is None else (accepted.gpu_id, accepted.report.node.cluster == SIMULATED)


def rank_of(accepted: Accepted) -> str:
    """Text that sorts as reports do: oldest first, those without a time before all."""
    return rank(accepted.ordering.ordered_at, accepted.report.measured_to, accepted.report.report_id)


def rank(ordered_at: datetime | None, measured_to: datetime | None, report_id: UUID) -> str:
    """The same, of a report's own times and id, with which it ends."""
    words = ("" if time is None else time.isoformat(timespec="microseconds") for time in (ordered_at, measured_to))
    return " ".join((*words, str(report_id)))


def device_certainty(gpu: ReportedGpu) -> DeviceCertainty:
    """How well a report knows the device of its gpu."""
    if canonical_device_name(gpu.device or ""):
        return DeviceCertainty.NAMED
    described = gpu.architecture is not None or gpu.memory_bytes is not None
    return DeviceCertainty.DESCRIBED if described else DeviceCertainty.UNKNOWN


def upsert_nodes(
    session: Session, accepted: Iterable[Accepted], *, quarantined: Container[UUID] = ()
) -> dict[NodeKey, Row]:
    """
    Bring the nodes of new reports up to date; their rows by cluster and name.

    `quarantined` are the ids of the reports that say nothing.
    """
    said = ((item, seen_node(item)) for item in accepted)
    seen = _together(
        ((node_key(item), unsaid_node(row) if item.report.report_id in quarantined else row) for item, row in said),
        merged_nodes,
    )

    def locked(keys: list[NodeKey]) -> dict[NodeKey, Row]:
        rows = locked_rows(session, _NODES, tuple_(Node.cluster, Node.name).in_(keys))
        return {(row["cluster"], row["name"]): row for row in rows}

    return _recorded(session, _NODES, seen, locked, merged_nodes)


def upsert_gpus(
    session: Session,
    accepted: Iterable[Accepted],
    *,
    devices: Mapping[str, int],
    nodes: Mapping[NodeKey, int],
    quarantined: Container[UUID] = (),
) -> dict[GpuKey, Row]:
    """
    Bring the gpus of new reports up to date, and lock them until the transaction ends; their rows by key.

    `devices` and `nodes` give the ids that they refer to; `quarantined` are the ids of the reports that say nothing.
    """
    said = ((item, seen_gpu(item, devices, nodes)) for item in accepted if item.gpu_id is not None)
    seen = _together(
        ((gpu_key(item), unsaid_gpu(row) if item.report.report_id in quarantined else row) for item, row in said),
        merged_gpus,
    )

    def locked(keys: list[GpuKey]) -> dict[GpuKey, Row]:
        rows = locked_rows(session, _GPUS, tuple_(Gpu.identity, Gpu.simulated).in_(keys))
        return {(row["identity"], row["simulated"]): row for row in rows}

    return _recorded(session, _GPUS, seen, locked, merged_gpus)


def merged_nodes(one: Row, other: Row) -> Row:
    """What two descriptions of one node say together; the newest complete roster is kept, whoever is newer."""
    older, newer = _by_age(one, other)
    with_roster = max((one, other), key=lambda row: row["roster_rank"] or "")
    return {**older, **newer, "first_seen": _first_seen(one, other), **{name: with_roster[name] for name in _ROSTER}}


def merged_gpus(one: Row, other: Row) -> Row:
    """What two descriptions of one gpu say together, each thing from the newer of those that state it."""
    older, newer = _by_age(one, other)
    stated = {
        name: max(row["stated"].get(name, "") for row in (one, other)) for name in (*older["stated"], *newer["stated"])
    }
    facts = {
        name: next(row[name] for row in (newer, older) if row["stated"].get(name) == rank)
        for name, rank in stated.items()
    }
    return {
        **older,
        **newer,
        "first_seen": _first_seen(one, other),
        "measured_at": max((row["measured_at"] for row in (one, other) if row["measured_at"]), default=None),
        "is_due": one["is_due"] or other["is_due"],
        "several_nodes": one["several_nodes"] or other["several_nodes"] or one["node_id"] != other["node_id"],
        "stated": stated,
        **facts,
    }


def _by_age(one: Row, other: Row) -> list[Row]:
    return sorted((one, other), key=lambda row: row["last_rank"])


def _first_seen(one: Row, other: Row) -> datetime | None:
    return min((row["first_seen"] for row in (one, other) if row["first_seen"] is not None), default=None)


def _recorded(
    session: Session,
    table: Table,
    seen: dict[_UnitKey, Row],
    locked: Callable[[list[_UnitKey]], dict[_UnitKey, Row]],
    merged: Callable[[Row, Row], Row],
) -> dict[_UnitKey, Row]:
    if not seen:
        return {}
    rows = locked(list(seen))
    missing = sorted(seen.keys() - rows.keys())
    if missing:
        insert_rows(session, table, [seen[key] for key in missing], ignoring=True)
        rows |= locked(missing)
    together = {key: merged(rows[key], row) for key, row in seen.items()}
    update_rows(session, table, [row for key, row in together.items() if row != rows[key]])
    return together


def _together(seen: Iterable[tuple[_UnitKey | None, Row]], merged: Callable[[Row, Row], Row]) -> dict[_UnitKey, Row]:
    together: dict[_UnitKey, Row] = {}
    for key, row in seen:
        if key is not None:
            together[key] = merged(together[key], row) if key in together else row
    return together


def _seen(item: Accepted) -> Row:
    at = item.ordering.ordered_at
    return {"first_seen": at, "last_seen": at, "last_report_id": item.report.report_id, "last_rank": rank_of(item)}


def unsaid_node(row: Row) -> Row:
    """Row of a node of which nothing is known but its name."""
    return {**row, "labels": {}, **dict.fromkeys(_ROSTER), **_UNSEEN}


def unsaid_gpu(row: Row) -> Row:
    """Row of a gpu of which nothing is known but its id; where it is stays, since a row has to be somewhere."""
    return {
        **row,
        **dict.fromkeys(("gpu_index", *_FACTS)),
        "stated": {},
        "is_due": False,
        "measured_at": None,
        **_UNSEEN,
    }


def seen_node(item: Accepted) -> Row:
    """What one report says of its node."""
    report = item.report
    roster = report.run.roster if report.run.roster_complete else None
    return {
        "cluster": report.node.cluster,
        "name": report.node.name,
        "labels": dict(report.node.labels),
        "roster": None if roster is None else [_roster_entry(gpu, report.node) for gpu in roster],
        "roster_seen": None if roster is None else item.ordering.ordered_at,
        "roster_report_id": None if roster is None else report.report_id,
        "roster_rank": None if roster is None else rank_of(item),
        "quarantined": False,
        **_seen(item),
    }


def is_usable(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a stored roster is a gpu that can be used: not one that the driver has lost."""
    return entry.get("state") != LOST


def _roster_entry(gpu: RosterGpu, node: ReportedNode) -> dict[str, Any]:
    try:
        gpu_id = gpu_identity(
            gpu.uuid, cluster=node.cluster, node=node.name, pci_bus_id=gpu.pci_bus_id, index=gpu.index
        )
    except ValueError:
        gpu_id = None
    entry = {"gpu_id": gpu_id, "pci_bus_id": gpu.pci_bus_id, "index": gpu.index, "device": gpu.device}
    return entry if gpu.state is None else {**entry, "state": gpu.state}


def seen_gpu(item: Accepted, devices: Mapping[str, int], nodes: Mapping[NodeKey, int]) -> Row:
    """What one report says of its gpu."""
    gpu, node, key = item.report.gpu, node_key(item), gpu_key(item)
    assert gpu is not None and key is not None and item.device_name is not None  # noqa: S101, PT018 # it has an identity
    facts = {"gpu_index": gpu.index, **{name: getattr(gpu, name) for name in _FACTS}}
    certainty, rank = device_certainty(gpu), rank_of(item)
    is_named = certainty is DeviceCertainty.NAMED
    known = [name for name, value in facts.items() if value is not None or (is_named and name in _OF_PARTS)]
    return {
        "identity": key[0],
        "simulated": key[1],
        "device_id": devices[item.device_name],
        "cluster": item.report.node.cluster,
        "node_id": None if node is None else nodes[node],
        **facts,
        "stated": dict.fromkeys(known, rank) | {"device_id": f"{certainty:d} {rank}"},
        "is_due": True,
        "several_nodes": False,
        "quarantined": False,
        "measured_at": item.ordering.ordered_at if _is_valid(item) else None,
        **_seen(item),
    }


def _is_valid(item: Accepted) -> bool:
    """Whether a report has rates that count, as far as it says itself."""
    return item.report.outcome == "measured" and item.report.evidence.contended is not True


def refresh_measured_at(session: Session, gpu_rows: Collection[int]) -> None:
    """Say of some gpus anew when they were measured last, after some of their reports stopped or began to count."""
    if not gpu_rows:
        return
    newest = (
        select(func.max(Report.ordered_at))
        .where(
            Report.gpu_id == Gpu.id,
            Report.outcome == "measured",
            Report.contended.is_not(True),
            is_trusted(Report),
            is_undisputed(Report),
        )
        .scalar_subquery()
    )
    chosen = update(Gpu).where(Gpu.id.in_(gpu_rows)).values(measured_at=newest)
    session.execute(chosen.execution_options(synchronize_session=False))
