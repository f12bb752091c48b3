"""What an address names, or the problem that says where to look."""

from __future__ import annotations

from sqlalchemy.orm import Session

from fleetridge_server.answer.schemas import DeviceName
from fleetridge_server.problems import ProblemError
from fleetridge_server.store.lookup import device_named, device_names, gpu_named
from fleetridge_server.store.models import Device, Gpu


def the_device(session: Session, name: str) -> Device:
    """
    The device of this name.

    Raises:
        ProblemError: 404, there is none.
    """
    device = device_named(session, name)
    if device is None:
        detail = "no device has this name or slug, spelled exactly so; GET /devices lists them"
        raise ProblemError(404, "unknown_device", "There is no such device", detail)
    return device


def named(session: Session, device: Device) -> DeviceName:
    """A device with all its names."""
    return DeviceName(name=device.name, slug=device.slug, names=device_names(session, [device.id])[device.id])


def the_gpu(session: Session, gpu_id: str, *, simulated: bool) -> Gpu:
    """
    The gpu of this id.

    Raises:
        ProblemError: 404, there is none.
    """
    gpu = gpu_named(session, gpu_id, simulated=simulated)
    if gpu is None:
        detail = (
            "no gpu has this id; GET /devices lists the devices, GET /devices/{name}/ridge the gpus of one "
            "(made-up ones only with ?cluster=simulated)"
        )
        raise ProblemError(404, "unknown_gpu", "There is no such gpu", detail)
    return gpu
