"""What Prometheus is told of: the newest evaluation of each device, and the gpus in trouble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from fleetridge_server.answer.verdict_schemas import GpuVerdict
from fleetridge_server.evaluation.read import EvaluationRef, current_evaluations
from fleetridge_server.evaluation.verdict_record import shown_verdict
from fleetridge_server.store.lookup import names_of_devices
from fleetridge_server.store.models import Gpu, Node
from fleetridge_server.store.verdict_models import CurrentVerdict
from fleetridge_server.verdict.state import STATES

# Each gpu has some ten series; 50,000 is what one scrape of a server should bear.
MOST_GPUS = 5000


@dataclass(frozen=True, slots=True)
class MetricGpu:
    """A gpu, where it is, and its verdict; no place for one that never reported."""

    device: str
    cluster: str
    node: str
    verdict: GpuVerdict
    last_seen: datetime | None


@dataclass(frozen=True, slots=True)
class MetricsRead:
    """
    All that metrics are made of.

    Attributes:
        devices: name and newest evaluation of each.
        newest: by name of a device, when its newest report arrived or was measured.
        gpus: worst first.
        left_out: gpus that should have series and are too many.
    """

    devices: Sequence[tuple[str, EvaluationRef]]
    newest: Mapping[str, datetime]
    gpus: Sequence[MetricGpu]
    left_out: int


def read_metrics(session: Session, *, every_gpu: bool, most: int) -> MetricsRead:
    """
    Read what metrics are made of; real gpus only.

    Args:
        session: to read in.
        every_gpu: whether gpus that are ok have series, too.
        most: gpus with series.
    """
    evaluations = current_evaluations(session, simulated=False)
    newest = _newest(session)
    references = {ref.device_id: ref.references for ref in evaluations}
    names = names_of_devices(session, {ref.device_id for ref in evaluations} | set(newest))
    verdict = CurrentVerdict
    chosen: list[ColumnElement[bool]] = [verdict.simulated.is_(False)]
    if not every_gpu:
        chosen.append(verdict.state_rank != STATES.index("ok"))
    total = session.scalar(select(func.count()).select_from(verdict).where(*chosen)) or 0
    query = (
        select(verdict.device_id, verdict.identity, verdict.body, Gpu.cluster, Node.name, Gpu.last_seen)
        .outerjoin(Gpu, and_(Gpu.identity == verdict.identity, Gpu.simulated.is_(False)))
        .outerjoin(Node, Node.id == Gpu.node_id)
        .where(*chosen)
        .order_by(verdict.state_rank, verdict.identity)
        .limit(most)
    )
    gpus = [
        MetricGpu(
            names[device_id],
            cluster or "",
            node or "",
            shown_verdict(gpu_id, body, references[device_id]),
            seen,
        )
        for device_id, gpu_id, body, cluster, node, seen in session.execute(query)
        if device_id in references
    ]
    return MetricsRead(
        devices=[(names[ref.device_id], ref) for ref in evaluations],
        newest={names[device_id]: seen for device_id, seen in newest.items()},
        gpus=gpus,
        left_out=max(0, total - most),
    )


def _newest(session: Session) -> dict[int, datetime]:
    """Time of the newest report of each device, by its row; also of those that were never evaluated."""
    query = select(Gpu.device_id, func.max(Gpu.last_seen)).where(Gpu.simulated.is_(False)).group_by(Gpu.device_id)
    return {device_id: seen for device_id, seen in session.execute(query) if seen is not None}
