"""
Which figures an answer has: those that the newest evaluation stored, or live ones.

Stored figures answer for now, whatever the number of gpus. A past time is worked out from what was reported until
then, and so are devices that no evaluation, or none of this version, has spoken of yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from fleetridge_server.answer.figure_schemas import ClusterFigures, FleetFigures
from fleetridge_server.compare.span import Span
from fleetridge_server.store.lookup import all_devices
from fleetridge_server.store.models import Device
from fleetridge_server.store.locations import DeviceCount, Where, device_counts
from fleetridge_server.store.told import Told, told_of_devices


def stored_figures(told: Told | None, *, asked: bool) -> FleetFigures | None:
    """The figures that an evaluation stored, where they hold for an answer; `asked` is whether a time was asked for."""
    return None if asked or told is None else told.body.figures


def counted_devices(
    session: Session, span: Span, cluster: str | None, *, asked: bool
) -> tuple[list[DeviceCount], dict[int, Told]]:
    """
    Devices that have gpus in a cluster (None for any), sorted by name, and the evaluations that answer for them.

    Args:
        session: to read in.
        span: time and population.
        cluster: only there.
        asked: whether the time was asked for.
    """
    if asked:
        counts = device_counts(session, span, Where(cluster))
        return counts, told_of_devices(session, [count.device.id for count in counts], span, explicit=True)
    devices = {device.id: device for device in all_devices(session)}
    told = told_of_devices(session, devices, span, explicit=False)
    clusters = {device_id: _clusters(told.get(device_id)) for device_id in devices}
    counts = [_count(devices[device_id], own, cluster) for device_id, own in clusters.items() if own is not None]
    waiting = [device_id for device_id, own in clusters.items() if own is None]
    if waiting:
        counts += device_counts(session, span, Where(cluster), device_ids=waiting)
    there = sorted((count for count in counts if count.gpus), key=lambda count: count.device.name)
    return there, told


def _clusters(told: Told | None) -> Sequence[ClusterFigures] | None:
    figures = stored_figures(told, asked=False)
    return None if figures is None else figures.clusters


def _count(device: Device, clusters: Sequence[ClusterFigures], cluster: str | None) -> DeviceCount:
    own = [found for found in clusters if cluster in (None, found.cluster)]
    newest = [found.newest_report for found in own if found.newest_report is not None]
    gpus, nodes = sum(found.gpus for found in own), sum(found.nodes for found in own)
    return DeviceCount(device, gpus, nodes, max(newest, default=None))
