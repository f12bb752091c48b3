"""
Locations of gpus: node, cluster, device and how the newest report ended, now or at an earlier time; levels of factors.

What a gpu's row says holds for every time since the gpu's newest report. For an earlier time it is read from the
reports up to then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    SQLColumnExpression,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
)
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Device, Gpu, Node, Report, is_trusted
from fleetridge_server.db.verdict_tables import CurrentVerdict
from fleetridge_server.engine.cohort import Span
from fleetridge_server.engine.groups import level_name
from fleetridge_server.fleet.find import is_storable


@dataclass(frozen=True, slots=True)
class GpuLocation:
    """
    A gpu as its newest report up to some time describes it.

    Attributes:
        row: of the gpu.
        node: None where an import never said.
        index: in the driver's order, for people.
        ordered_at, received_at, outcome, reason: of the newest report with a time, measured or not; None where none
            has a time.
        is_due: whether it reported something that its history does not know yet.
    """

    row: int
    gpu_id: str
    device_id: int
    cluster: str
    node: str | None
    index: int | None
    pci_bus_id: str | None
    mig_profile: str | None
    partition: str | None
    ordered_at: datetime | None
    received_at: datetime | None
    outcome: str | None
    reason: str | None
    is_due: bool


_GPU_ROWS = "gpu_rows"


@dataclass(frozen=True, slots=True)
class Where:
    """Where gpus are to be; None is anywhere."""

    cluster: str | None = None
    node: str | None = None

    @property
    def is_set(self) -> bool:
        """Whether any place is left out."""
        return self.cluster is not None or self.node is not None


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """A device with what there is of it; its newest report by ordering time, whatever the outcome."""

    device: Device
    gpus: int
    nodes: int
    newest_report: datetime | None


def device_counts(
    session: Session,
    span: Span,
    where: Where | None = None,
    *,
    device_ids: Collection[int] | None = None,
    by_verdict: bool = False,
) -> list[DeviceCount]:
    """
    Devices that have gpus there, sorted by name.

    Args:
        session: to read in.
        span: time, and real or simulated gpus.
        where: the gpus are to be.
        device_ids: only these devices.
        by_verdict: whether a gpu is of the device that it is judged of now.
    """
    where = where or Where()
    if not is_possible(where):
        return []
    if by_verdict and where.node is None:
        now = _counts_by_rows(session, span, where.cluster, device_ids)
        if now is not None:
            return now
    chosen = [] if device_ids is None else [_device(span, by_verdict=by_verdict).in_(device_ids)]
    located = _located(span, where, *chosen, by_verdict=by_verdict).add_columns(Node.id.label("node_id")).subquery()
    query = (
        select(
            Device, func.count(), func.count(located.c.node_id.distinct()), func.max(located.c.ordered_at)
        )  # a node is named within its cluster, so that its row counts once
        .join(located, located.c.device_id == Device.id)
        .group_by(Device.id)
    )
    counts = [DeviceCount(*row) for row in session.execute(query)]
    return sorted(counts, key=lambda count: count.device.name)


def _counts_by_rows(
    session: Session, span: Span, cluster: str | None, device_ids: Collection[int] | None
) -> list[DeviceCount] | None:
    """
    The counts of now from the gpus' own rows, a tenth of the work for a large fleet.

    None where those say something else: a gpu was seen after `span.as_of`, or is judged of another device so far.
    """
    chosen = [Gpu.simulated.is_(span.simulated), ~Gpu.quarantined]
    chosen += [] if cluster is None else [Gpu.cluster == cluster]
    own = (CurrentVerdict.identity == Gpu.identity, CurrentVerdict.simulated == Gpu.simulated)
    is_due = (Gpu.device_id.in_(select(Device.id)), Gpu.is_due)  # of any device, by the index of both
    judged_elsewhere = select(Gpu.id).join(CurrentVerdict, and_(*own, CurrentVerdict.device_id != Gpu.device_id))
    is_elsewhere = judged_elsewhere.where(*is_due, *chosen).correlate(None).exists()
    chosen += [] if device_ids is None else [Gpu.device_id.in_(device_ids)]
    counts = select(Device, func.count(), func.count(Gpu.node_id.distinct()), func.max(Gpu.last_seen), is_elsewhere)
    query = counts.join(Gpu, Gpu.device_id == Device.id).where(*chosen).group_by(Device.id).order_by(Device.name)
    found = session.execute(query).all()
    if not found or any(elsewhere or (newest is not None and newest > span.as_of) for *_, newest, elsewhere in found):
        return None
    return [DeviceCount(device, gpus, nodes, newest) for device, gpus, nodes, newest, _ in found]


def locations_of_device(
    session: Session, device_id: int, span: Span, where: Where | None = None, *, by_verdict: bool = False
) -> list[GpuLocation]:
    """Where the gpus of a device are, in no order; gpus first seen later than `span.as_of` are left out."""
    where = where or Where()
    if not is_possible(where):
        return []
    is_of_device = _device(span, by_verdict=by_verdict) == device_id
    return _read(session.execute(_located(span, where, is_of_device, by_verdict=by_verdict, with_quarantined=True)))


def gpu_rows_there(
    session: Session,
    device_id: int,
    span: Span,
    where: Where,
    *,
    is_past: bool,
    by_verdict: bool,
    with_quarantined: bool = False,
) -> dict[int, str]:
    """
    Ids of the gpus of a device that are there, by their rows.

    Args:
        session: to read in.
        device_id: of the device.
        span: time, and real or simulated gpus.
        where: the gpus are to be.
        is_past: whether the time is one of the past; where they are now their own rows say.
        by_verdict: whether a gpu is of the device that it is judged of now.
        with_quarantined: whether gpus in quarantine are among them.
    """
    if not is_possible(where):
        return {}
    is_of_device = _device(span, by_verdict=by_verdict) == device_id
    if is_past:
        located = _located(span, where, is_of_device, with_quarantined=with_quarantined)
        found = located.with_only_columns(Gpu.id, Gpu.identity)
    else:
        found = _there_now(where, is_of_device, *_unless(with_quarantined), simulated=span.simulated)
    # Two columns of a whole fleet: as rows of the ORM they take twice as long.
    return {row: gpu_id for row, gpu_id in session.connection().execute(found)}  # noqa: C416 # rows, which dict() does not take by type


def _there_now(where: Where, *chosen: ColumnElement[bool], simulated: bool) -> Select[int, str]:
    found = select(Gpu.id, Gpu.identity).where(Gpu.simulated.is_(simulated), *chosen)
    if where.cluster is not None:
        found = found.where(Gpu.cluster == where.cluster)
    if where.node is not None:
        found = found.where(Gpu.node_id.in_(select(Node.id).where(Node.name == where.node)))
    return found


def locations_of_gpus(
    session: Session, gpu_rows: Collection[int], span: Span, *, is_past: bool
) -> dict[int, GpuLocation]:
    """
    Where some gpus are, by their rows; those in quarantine are left out, and those first seen later than `span.as_of`.

    `is_past` is whether the time is one of the past; where they are now their own rows say.
    """
    if is_past:
        found = _read(session.execute(_located(span, Where(), Gpu.id.in_(gpu_rows))))
    else:
        found = _read(session.execute(_now(), {_GPU_ROWS: list(gpu_rows)}))
    return {own.row: own for own in found}


@cache
def _now() -> Select[Any]:
    """Query that is put together once: that takes as long as running it."""
    return (
        select(*_columns(Gpu.device_id, Gpu.cluster, Report))
        .select_from(Gpu)
        .outerjoin(Report, and_(Report.id == Gpu.last_report_id, Report.ordered_at.is_not(None)))
        .outerjoin(Node, Node.id == Gpu.node_id)
        .where(Gpu.id.in_(bindparam(_GPU_ROWS, expanding=True)), ~Gpu.quarantined)
    )


def location_of_gpu(session: Session, gpu_row: int, span: Span, *, by_verdict: bool = False) -> GpuLocation | None:
    """Where one gpu is; None where it was first seen later than `span.as_of`."""
    return next(iter(_read(session.execute(_located(span, Where(), Gpu.id == gpu_row, by_verdict=by_verdict)))), None)


def device_then(span: Span) -> ColumnElement[int]:
    """
    Device of the gpu of a row of `gpus` at that time; null where it was not seen yet.

    As in `gpus`: the newest report of those that know it best.
    """
    return case(
        (_is_as_in_its_row(span), Gpu.device_id), else_=_of_report_then(span, "device_id", Report.device_certainty)
    )


def _device(span: Span, *, by_verdict: bool) -> ColumnElement[int]:
    """Device that a gpu is judged of now, until it is judged anew; else, or without a verdict, that of the time."""
    if not by_verdict:
        return device_then(span)
    own = (CurrentVerdict.identity == Gpu.identity, CurrentVerdict.simulated == Gpu.simulated)
    judged = select(CurrentVerdict.device_id).where(*own).correlate(Gpu).scalar_subquery()
    return func.coalesce(judged, device_then(span))


def _unless(with_quarantined: bool) -> list[ColumnElement[bool]]:  # it reads as it is
    return [] if with_quarantined else [~Gpu.quarantined]


def is_possible(where: Where) -> bool:
    """Whether there may be anything there: some texts cannot be in a database."""
    return all(is_storable(text) for text in (where.cluster, where.node) if text is not None)


def _columns(device_id: SQLColumnExpression[int], cluster: SQLColumnExpression[str], report: type[Report]) -> list[Any]:
    """What a `GpuLocation` is made of, in the order of its fields; the node that a query joins is the gpu's."""
    gpu = (Gpu.id, Gpu.identity, device_id, cluster, Node.name, Gpu.gpu_index, Gpu.pci_bus_id, Gpu.mig_profile)
    return [*gpu, Gpu.partition, report.ordered_at, report.received_at, report.outcome, report.reason, Gpu.is_due]


def _read(rows: Iterable[Any]) -> list[GpuLocation]:
    return [GpuLocation(*row) for row in rows]


def _located(
    span: Span, where: Where, *chosen: ColumnElement[bool], by_verdict: bool = False, with_quarantined: bool = False
) -> Select[Any]:
    latest = aliased(Report)
    # One that only imports without a time speak of has always been there, and its row says where.
    is_timeless = Gpu.first_seen.is_(None)
    cluster = case((is_timeless, Gpu.cluster), else_=latest.cluster)
    wanted = [] if where.cluster is None else [cluster == where.cluster]
    wanted += [] if where.node is None else [Node.name == where.node]
    newest = case((_is_as_in_its_row(span), Gpu.last_report_id), else_=_of_report_then(span, "id"))
    return (
        select(*_columns(_device(span, by_verdict=by_verdict).label("device_id"), cluster.label("cluster"), latest))
        .select_from(Gpu)
        .outerjoin(latest, and_(latest.id == newest, latest.ordered_at.is_not(None)))
        .outerjoin(Node, Node.id == case((is_timeless, Gpu.node_id), else_=latest.node_id))
        .where(
            Gpu.simulated.is_(span.simulated),
            *_unless(with_quarantined),
            *chosen,
            *wanted,
            or_(is_timeless, latest.id.is_not(None)),
        )
    )


def _is_as_in_its_row(span: Span) -> ColumnElement[bool]:
    return or_(Gpu.last_seen.is_(None), Gpu.last_seen <= span.as_of)


def _of_report_then(
    span: Span, column: str, *first: InstrumentedAttribute[int | None]
) -> ScalarSelect[UUID] | ScalarSelect[int]:
    """A column of the gpu's newest report up to that time; `first` are columns to sort by before time."""
    report = aliased(Report)
    return (
        select(getattr(report, column))
        .where(report.gpu_id == Gpu.id, report.ordered_at <= span.as_of, is_trusted(report))
        .order_by(
            *(getattr(report, name.key).desc() for name in first),
            report.ordered_at.desc(),
            report.measured_to.desc(),
            report.id.desc(),
        )
        .limit(1)
        .correlate(Gpu)
        .scalar_subquery()
    )


def labels_of_locations(session: Session, places: Iterable[GpuLocation], label: str) -> dict[str, str]:
    """A label of the node that each gpu is on, by gpu; "unknown" where its node has none."""
    found = list(places)
    names = {place.node for place in found if place.node is not None}
    labels: dict[tuple[str, str], str] = {}
    for chunk in in_chunks(sorted(names)):
        query = select(Node.cluster, Node.name, Node.labels).where(Node.name.in_(chunk))
        for cluster, name, own in session.execute(query):
            if label in own:
                labels[cluster, name] = own[label]
    return {place.gpu_id: labels.get((place.cluster, place.node or ""), level_name(None)) for place in found}
