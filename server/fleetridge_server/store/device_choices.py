"""By what the gpus of a device can be told apart: what there is to choose from."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.store.models import Device, Gpu, GpuRoof, Report


@dataclass(frozen=True, slots=True)
class DeviceChoices:
    """
    Values that gpus of a device have, each in order.

    Attributes:
        drivers: of their newest reports.
        dtypes: of their rates of arithmetic.
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
    dtypes = select(GpuRoof.dtype).where(GpuRoof.gpu_id.in_(gpus), GpuRoof.kind == "compute").distinct()
    return DeviceChoices(
        clusters=tuple(sorted(session.scalars(clusters))),
        drivers=tuple(sorted(driver for driver in session.scalars(drivers) if driver is not None)),
        dtypes=tuple(sorted(session.scalars(dtypes))),
    )
