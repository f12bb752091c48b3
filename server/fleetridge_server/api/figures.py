"""Devices that have gpus in a place, counted, with the evaluation that answers for each."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from fleetridge_server.answer.figure_schemas import ClusterFigures
from fleetridge_server.api.evaluations import evaluation_for
from fleetridge_server.compare.span import Span
from fleetridge_server.evaluation.read import EvaluationRef, evaluations_at
from fleetridge_server.store.locations import DeviceCount, Where, device_counts
from fleetridge_server.store.lookup import all_devices
from fleetridge_server.store.models import Device


def counted_devices(
    session: Session, span: Span, cluster: str | None, *, asked: bool
) -> tuple[list[DeviceCount], dict[int, EvaluationRef]]:
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
        found = {count.device.id: evaluation_for(session, count.device.id, span, explicit=True) for count in counts}
        return counts, {device_id: ref for device_id, ref in found.items() if ref is not None}
    devices = {device.id: device for device in all_devices(session)}
    evaluations = evaluations_at(session, devices, span, explicit=False)
    clusters = {device_id: _clusters(evaluations.get(device_id)) for device_id in devices}
    counts = [_count(devices[device_id], own, cluster) for device_id, own in clusters.items() if own is not None]
    waiting = [device_id for device_id, own in clusters.items() if own is None]
    if waiting:
        counts += device_counts(session, span, Where(cluster), device_ids=waiting)
    there = sorted((count for count in counts if count.gpus), key=lambda count: count.device.name)
    return there, evaluations


def _clusters(ref: EvaluationRef | None) -> Sequence[ClusterFigures] | None:
    return None if ref is None or ref.body.figures is None else ref.body.figures.clusters


def _count(device: Device, clusters: Sequence[ClusterFigures], cluster: str | None) -> DeviceCount:
    own = [found for found in clusters if cluster in (None, found.cluster)]
    newest = [found.newest_report for found in own if found.newest_report is not None]
    gpus, nodes = sum(found.gpus for found in own), sum(found.nodes for found in own)
    return DeviceCount(device, gpus, nodes, max(newest, default=None))
