"""What is told of a report whose document retention has dropped."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.answer.schemas import Answer, RoofValue
from fleetridge_server.store.models import Device, Gpu, Node, Report, Roof


class KeptRoof(RoofValue):
    """One roof of the report, in `unit`."""


class Summary(Answer):
    """What stays of a report whose document is no longer kept; in quarantine it counts for nothing."""

    report_id: UUID
    outcome: str
    reason: str | None
    detail: str | None
    run_kind: str
    cluster: str
    node: str | None
    gpu_id: str | None
    device: str | None
    measured_from: datetime | None
    measured_to: datetime | None
    received_at: datetime
    agent_version: str
    method: str | None
    protocol_version: int | None
    torch: str | None
    driver: str | None
    quarantined: bool
    roofs: tuple[KeptRoof, ...]


# The row's `gpu_id` is a number of ours.
_OF_REPORT = (Summary.model_fields.keys() & Report.__table__.columns.keys()) - {"gpu_id"}


def summary_of(session: Session, report: Report) -> Summary:
    """Summary of a report, roofs in the order in which it gave them."""
    names = (
        select(Node.name, Gpu.identity, Device.name)
        .select_from(Report)
        .outerjoin(Node, Node.id == Report.node_id)
        .outerjoin(Gpu, Gpu.id == Report.gpu_id)
        .outerjoin(Device, Device.id == Report.device_id)
        .where(Report.id == report.id)
    )
    node, gpu_id, device = session.execute(names).one()
    roofs = session.scalars(select(Roof).where(Roof.report_id == report.id).order_by(Roof.position))
    return Summary(
        report_id=report.id,
        node=node,
        gpu_id=gpu_id,
        device=device,
        roofs=tuple(KeptRoof.model_validate(roof, from_attributes=True) for roof in roofs),
        **{name: getattr(report, name) for name in _OF_REPORT},
    )
