"""Where the gpus of a device are now, cluster by cluster, as an evaluation counts them once for all answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleetridge_server.store.due import Population
from fleetridge_server.store.models import Gpu


@dataclass(frozen=True, slots=True)
class ClusterGpus:
    """
    What a cluster has of a device.

    Attributes:
        identities: of the gpus that are there.
        newest_report: ordering time of the newest report, whatever its outcome; None where none has a time.
    """

    cluster: str
    identities: Sequence[str]
    nodes: int
    newest_report: datetime | None


def cluster_gpus(session: Session, population: Population) -> list[ClusterGpus]:
    """What each cluster has of a device, by its name."""
    there = (
        Gpu.device_id == population.device_id,
        Gpu.simulated.is_(population.simulated),
        ~Gpu.quarantined,
    )
    identities: dict[str, list[str]] = defaultdict(list)
    for cluster, identity in session.execute(select(Gpu.cluster, Gpu.identity).where(*there)):
        identities[cluster].append(identity)
    counts = select(Gpu.cluster, func.count(Gpu.node_id.distinct()), func.max(Gpu.last_seen))
    return [
        ClusterGpus(cluster, identities[cluster], nodes, newest)
        for cluster, nodes, newest in session.execute(counts.where(*there).group_by(Gpu.cluster).order_by(Gpu.cluster))
    ]
