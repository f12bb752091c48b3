"""By what the gpus of a device can be told apart: what there is to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import Span
from fleetridge_server.evaluation.read import evaluation_at
from fleetridge_server.store.models import Device, Gpu, Report


@dataclass(frozen=True, slots=True)
class DeviceChoices:
    """
    Values that gpus of a device have, each in order.

    Attributes:
        drivers: of their newest reports.
        dtypes: of their rates of arithmetic, by the newest evaluation.
    """

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
