"""Devices, gpus and nodes by name, and where each gpu is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Executable, ScalarSelect, and_, case, func, or_, select
from sqlalchemy.orm import Session, aliased

from fleetridge.strict_json import printable_problem
from fleetridge_server.place import GpuPlace
from fleetridge_server.store.models import Device, DeviceName, Gpu, Node, Report
from fleetridge_server.store.reading import SIMULATED, Span, in_population


@dataclass(frozen=True, slots=True)
class Where:
    """Where gpus are to be; None is anywhere."""

    cluster: str | None = None
    node: str | None = None


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


def device_names(session: Session, device_ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Names that drivers gave some devices, each list sorted; empty for a device that no driver named."""
    names: dict[int, list[str]] = defaultdict(list)
    query = select(DeviceName.device_id, DeviceName.name).where(DeviceName.device_id.in_(device_ids))
    for device_id, name in session.execute(query):
        names[device_id].append(name)
    return {device_id: tuple(sorted(names[device_id])) for device_id in device_ids}


def devices_by_name(session: Session, span: Span, cluster: str | None) -> list[Device]:
    """All devices that have gpus, in a cluster if one is given, sorted by name."""
    if cluster is not None and not is_storable(cluster):
        return []
    seen = select(Gpu.device_id).where(
        in_population(Gpu.cluster, simulated=span.simulated) if cluster is None else Gpu.cluster == cluster,
        or_(Gpu.first_seen.is_(None), Gpu.first_seen <= span.as_of),
    )
    return sorted(session.scalars(select(Device).where(Device.id.in_(seen))), key=lambda device: device.name)


def gpu_with_device(session: Session, gpu_id: str) -> tuple[Gpu, Device] | None:
    """The gpu with this identity, spelled exactly, and its device."""
    if not is_storable(gpu_id):
        return None
    row = session.execute(select(Gpu, Device).join(Device, Device.id == Gpu.device_id).where(Gpu.id == gpu_id)).first()
    return None if row is None else (row[0], row[1])


def nodes_named(session: Session, name: str, cluster: str | None) -> list[Node]:
    """Nodes of this name, sorted by cluster; those of the simulator only where its cluster is asked for."""
    if not all(is_storable(text) for text in (name, cluster) if text is not None):
        return []
    in_cluster = Node.cluster != SIMULATED if cluster is None else Node.cluster == cluster
    found = session.scalars(select(Node).where(Node.name == name, in_cluster))
    return sorted(found, key=lambda node: node.cluster)


def places_of_devices(
    session: Session, device_ids: Sequence[int], span: Span, where: Where | None = None
) -> list[GpuPlace]:
    """Where the gpus of some devices are, in no order; gpus first seen later than `span.as_of` are left out."""
    return _places(session, span, where or Where(), Gpu.device_id.in_(device_ids))


def place_of_gpu(session: Session, gpu_id: str, span: Span) -> GpuPlace | None:
    """Where one gpu is; None where it was first seen later than `span.as_of`."""
    return next(iter(_places(session, span, Where(), Gpu.id == gpu_id)), None)


def is_storable(text: str) -> bool:
    """Whether a text can be in the database at all; PostgreSQL refuses even to look for some others."""
    return text != "" and printable_problem(text) is None


def _places(session: Session, span: Span, where: Where, chosen: ColumnElement[bool]) -> list[GpuPlace]:
    if not all(is_storable(text) for text in (where.cluster, where.node) if text is not None):
        return []
    return [GpuPlace(*row) for row in session.execute(_places_query(span, where, chosen))]


def _places_query(span: Span, where: Where, chosen: ColumnElement[bool]) -> Executable:
    latest = aliased(Report)
    cluster = func.coalesce(latest.cluster, Gpu.cluster)
    node_id = case((latest.id.is_(None), Gpu.node_id), else_=latest.node_id)
    wanted = [in_population(cluster, simulated=span.simulated)]
    if where.cluster is not None:
        wanted.append(cluster == where.cluster)
    if where.node is not None:
        wanted.append(Node.name == where.node)
    return (
        select(
            Gpu.id,
            Gpu.device_id,
            cluster,
            Node.name,
            Gpu.gpu_index,
            Gpu.pci_bus_id,
            Gpu.mig_profile,
            Gpu.partition,
            latest.ordered_at,
            latest.outcome,
            latest.reason,
        )
        .select_from(Gpu)
        .outerjoin(latest, latest.id == _latest_report_id(span))
        .outerjoin(Node, Node.id == node_id)
        .where(
            chosen,
            *wanted,
            # One that only imports without a time speak of has always been there.
            or_(Gpu.first_seen.is_(None), and_(latest.id.is_not(None), latest.device_id == Gpu.device_id)),
        )
    )


def _latest_report_id(span: Span) -> ScalarSelect[UUID]:
    report = aliased(Report)
    return (
        select(report.id)
        .where(
            report.gpu_id == Gpu.id,
            report.ordered_at <= span.as_of,
            in_population(report.cluster, simulated=span.simulated),
        )
        .order_by(report.ordered_at.desc(), report.id.desc())
        .limit(1)
        .correlate(Gpu)
        .scalar_subquery()
    )
