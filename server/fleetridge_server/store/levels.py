"""By what gpus of a device differ: software and settings of the reports behind their values, and their places."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.compare.location import GpuLocation
from fleetridge_server.store.models import Node, Report
from fleetridge_server.store.upserts import in_chunks
from fleetridge_server.verdict.evidence import FactorName
from fleetridge_server.verdict.levels import level_name


def levels_of_reports(session: Session, report_ids: Iterable[UUID], factor: FactorName) -> dict[UUID, str]:
    """What some reports say of a factor, as people write it; "unknown" where they do not."""
    found: dict[UUID, str] = {}
    for chunk in in_chunks(list(set(report_ids))):
        query = select(Report.id, getattr(Report, factor)).where(Report.id.in_(chunk))
        found |= {report_id: level_name(reading) for report_id, reading in session.execute(query)}
    return found


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
