"""
Nodes and gpus as reports show them.

A row describes the newest report, by ordering time and, between equals, by report id. So the outcome is the same in
whatever order reports arrive, also when an old one comes late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, TypeVar, cast
from uuid import UUID

from sqlalchemy import Table, tuple_
from sqlalchemy.orm import Session

from fleetridge.identity import gpu_identity
from fleetridge.report import Node as ReportedNode
from fleetridge.report import RosterGpu
from fleetridge_server.ingest.intake import Accepted
from fleetridge_server.store.models import Gpu, Node
from fleetridge_server.store.upserts import Row, insert_ignoring, locked_rows, write_back

NodeKey = tuple[str, str]

_NODES = cast("Table", Node.__table__)
_GPUS = cast("Table", Gpu.__table__)
_BEFORE_ALL = datetime.min.replace(tzinfo=timezone.utc)
_Key = TypeVar("_Key", str, NodeKey)


def node_key(accepted: Accepted) -> NodeKey | None:
    """Cluster and name of a report's node, None where an import never said."""
    node = accepted.report.node
    return None if node.name is None else (node.cluster, node.name)


def record_nodes(session: Session, accepted: Iterable[Accepted]) -> dict[NodeKey, int]:
    """Bring the nodes of new reports up to date; ids by cluster and name."""
    seen = _merged((node_key(item), _seen_node(item)) for item in accepted)

    def locked(keys: list[NodeKey]) -> dict[NodeKey, Row]:
        rows = locked_rows(session, _NODES, tuple_(Node.cluster, Node.name).in_(keys))
        return {(row["cluster"], row["name"]): row for row in rows}

    return {key: row["id"] for key, row in _recorded(session, _NODES, seen, locked).items()}


def record_gpus(
    session: Session, accepted: Iterable[Accepted], *, devices: Mapping[str, int], nodes: Mapping[NodeKey, int]
) -> None:
    """Bring the gpus of new reports up to date; `devices` and `nodes` give the ids that they refer to."""
    seen = _merged((item.gpu_id, _seen_gpu(item, devices, nodes)) for item in accepted if item.gpu_id is not None)

    def locked(keys: list[str]) -> dict[str, Row]:
        return {row["id"]: row for row in locked_rows(session, _GPUS, Gpu.id.in_(keys))}

    _recorded(session, _GPUS, seen, locked)


def merged_rows(one: Row, other: Row) -> Row:
    """
    What two descriptions of the same node or gpu say together.

    The newer one describes it, the earliest time is kept, and so is the newest complete roster.
    """
    older, newer = sorted((one, other), key=_rank)
    times = [row["first_seen"] for row in (one, other) if row["first_seen"] is not None]
    together = {**older, **newer, "first_seen": min(times, default=None)}
    if "roster" in together:
        with_roster = max((one, other), key=_roster_rank)
        together |= {name: with_roster[name] for name in ("roster", "roster_seen", "roster_report_id")}
    return together


def _recorded(
    session: Session, table: Table, seen: dict[_Key, Row], locked: Callable[[list[_Key]], dict[_Key, Row]]
) -> dict[_Key, Row]:
    if not seen:
        return {}
    rows = locked(list(seen))
    missing = sorted(seen.keys() - rows.keys())
    if missing:
        session.execute(insert_ignoring(session, table), [seen[key] for key in missing])
        rows |= locked(missing)
    together = {key: merged_rows(rows[key], row) for key, row in seen.items()}
    write_back(session, table, [row for key, row in together.items() if row != rows[key]])
    return together


def _merged(seen: Iterable[tuple[_Key | None, Row]]) -> dict[_Key, Row]:
    together: dict[_Key, Row] = {}
    for key, row in seen:
        if key is not None:
            together[key] = merged_rows(together[key], row) if key in together else row
    return together


def _rank(row: Row) -> tuple[datetime, UUID]:
    return (row["last_seen"] or _BEFORE_ALL, row["last_report_id"])


def _roster_rank(row: Row) -> tuple[bool, datetime, int]:
    report_id: UUID | None = row["roster_report_id"]
    return (report_id is not None, row["roster_seen"] or _BEFORE_ALL, 0 if report_id is None else report_id.int)


def _seen(item: Accepted) -> Row:
    at = item.place.ordered_at
    return {"first_seen": at, "last_seen": at, "last_report_id": item.report.report_id}


def _seen_node(item: Accepted) -> Row:
    report = item.report
    roster = report.run.roster if report.run.roster_complete else None
    return {
        "cluster": report.node.cluster,
        "name": report.node.name,
        "labels": dict(report.node.labels),
        "roster": None if roster is None else [_roster_entry(gpu, report.node) for gpu in roster],
        "roster_seen": None if roster is None else item.place.ordered_at,
        "roster_report_id": None if roster is None else report.report_id,
        **_seen(item),
    }


def _roster_entry(gpu: RosterGpu, node: ReportedNode) -> dict[str, Any]:
    try:
        gpu_id = gpu_identity(
            gpu.uuid, cluster=node.cluster, node=node.name, pci_bus_id=gpu.pci_bus_id, index=gpu.index
        )
    except ValueError:
        gpu_id = None
    return {"gpu_id": gpu_id, "pci_bus_id": gpu.pci_bus_id, "index": gpu.index, "device": gpu.device}


def _seen_gpu(item: Accepted, devices: Mapping[str, int], nodes: Mapping[NodeKey, int]) -> Row:
    gpu, key = item.report.gpu, node_key(item)
    assert gpu is not None  # noqa: S101 # it has an identity
    assert item.device_name is not None  # noqa: S101 # as above
    return {
        "id": item.gpu_id,
        "device_id": devices[item.device_name],
        "cluster": item.report.node.cluster,
        "node_id": None if key is None else nodes[key],
        "pci_bus_id": gpu.pci_bus_id,
        "gpu_index": gpu.index,
        "architecture": gpu.architecture,
        "memory_bytes": gpu.memory_bytes,
        "sm_count": gpu.sm_count,
        "mig_profile": gpu.mig_profile,
        "partition": gpu.partition,
        **_seen(item),
    }
