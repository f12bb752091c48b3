"""Metrics of gpus and devices as Prometheus reads them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import final, get_args

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_server.db.tables import Gpu, Node
from fleetridge_server.db.verdict_tables import CurrentVerdict
from fleetridge_server.engine.gpu_state import STATES, State
from fleetridge_server.engine.notices import NoticeKind
from fleetridge_server.engine.ridge import best_betas
from fleetridge_server.engine.wording import rate_of
from fleetridge_server.fleet.find import names_of_devices
from fleetridge_server.fleet.members import verdict_counts
from fleetridge_server.verdicts.evaluation_shapes import cohort_of
from fleetridge_server.verdicts.record import shown_verdict
from fleetridge_server.verdicts.roof_shapes import RoofName
from fleetridge_server.verdicts.stored import EvaluationRef, current_evaluations
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict, JudgedRoof

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
    All that metrics are made of; gpus worst first, without those `left_out` as they are too many.

    `counts` are gpus by state, `newest` when its newest report arrived or was measured; both by name of a device.
    """

    devices: Sequence[tuple[str, EvaluationRef]]
    counts: Mapping[str, Mapping[State, int]]
    newest: Mapping[str, datetime]
    gpus: Sequence[MetricGpu]
    left_out: int


def read_metrics(session: Session, *, every_gpu: bool, most: int) -> MetricsRead:
    """
    Read what metrics are made of; real gpus only, of which at most `most` have series, with `every_gpu` those that are
    ok, too.
    """
    evaluations = current_evaluations(session, simulated=False)
    newest = _newest(session)
    references = {ref.device_id: ref.references for ref in evaluations}
    names = names_of_devices(session, {ref.device_id for ref in evaluations} | set(newest))
    verdict = CurrentVerdict
    chosen: list[ColumnElement[bool]] = [verdict.simulated.is_(False)]
    if not every_gpu:
        chosen.append(verdict.state_rank != STATES.index("ok"))
    own = and_(Gpu.identity == verdict.identity, Gpu.simulated.is_(False))
    # Quarantine takes a gpu out at once, before its device is evaluated anew.
    chosen.append(Gpu.quarantined.is_not(True))
    total = session.scalar(select(func.count()).select_from(verdict).outerjoin(Gpu, own).where(*chosen)) or 0
    query = (
        select(verdict.device_id, verdict.identity, verdict.body, Gpu.cluster, Node.name, Gpu.last_seen)
        .outerjoin(Gpu, own)
        .outerjoin(Node, Node.id == Gpu.node_id)
        .where(*chosen)
        .order_by(verdict.state_rank, verdict.identity)
        .limit(most)
    )
    gpus = [
        MetricGpu(names[device_id], cluster or "", node or "", shown_verdict(gpu_id, body, references[device_id]), seen)
        for device_id, gpu_id, body, cluster, node, seen in session.execute(query)
        if device_id in references
    ]
    return MetricsRead(
        devices=[(names[ref.device_id], ref) for ref in evaluations],
        counts={names[ref.device_id]: verdict_counts(session, ref, is_past=False) for ref in evaluations},
        newest={names[device_id]: seen for device_id, seen in newest.items()},
        gpus=gpus,
        left_out=max(0, total - most),
    )


def _newest(session: Session) -> dict[int, datetime]:
    """Time of the newest report of each device, by its row; also of those that were never evaluated."""
    query = (
        select(Gpu.device_id, func.max(Gpu.last_seen))
        .where(Gpu.simulated.is_(False), ~Gpu.quarantined)
        .group_by(Gpu.device_id)
    )
    return {device_id: seen for device_id, seen in session.execute(query) if seen is not None}


_OF_GPU = ("device", "cluster", "node", "gpu")
_OF_ROOF = (*_OF_GPU, "dtype", "regime")


@final
class VerdictCollector(Collector):
    """Metrics from what was read, made when they are collected."""

    def __init__(self, read: MetricsRead, now: datetime) -> None:
        self._read = read
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All families."""
        yield from self._of_devices()
        yield from self._of_gpus()
        yield from self._of_roofs()

    def _of_devices(self) -> Iterator[GaugeMetricFamily]:
        counts = GaugeMetricFamily("fleetridge_gpus", "Gpus by verdict.", labels=("device", "verdict"))
        age = GaugeMetricFamily(
            "fleetridge_evaluation_age_seconds", "Age of the newest evaluation of a device.", labels=("device",)
        )
        for device, ref in self._read.devices:
            for state in STATES:
                counts.add_metric((device, state), self._read.counts[device].get(state, 0))
            age.add_metric((device,), (self._now - ref.as_of).total_seconds())
        yield counts
        yield age
        yield self._notices()
        yield self._upgrades()
        yield self._newest()
        yield GaugeMetricFamily(
            "fleetridge_gpus_left_out",
            "Gpus without series of their own, since they are too many.",
            value=self._read.left_out,
        )

    def _notices(self) -> GaugeMetricFamily:
        notices = GaugeMetricFamily(
            "fleetridge_notices", "What is said once of many gpus of a device, by kind.", labels=("device", "notice")
        )
        for device, ref in self._read.devices:
            said = Counter(notice.kind for notice in ref.body.notices)
            for kind in get_args(NoticeKind):
                notices.add_metric((device, kind), said[kind])
        return notices

    def _upgrades(self) -> GaugeMetricFamily:
        effects = GaugeMetricFamily(
            "fleetridge_upgrade_effect_ratio",
            "What a change of driver, library or setting did to the gpus that met it, after over before, less 1.",
            labels=("device", "factor", "before", "after", "roof", "dtype", "regime"),
        )
        for device, ref in self._read.devices:
            worst: dict[tuple[str, ...], float] = {}
            for shown in ref.body.upgrades:
                labels = (shown.factor, shown.before, shown.after, *_roof_labels(shown.roof))
                worst[labels] = min(shown.effect, worst.get(labels, shown.effect))
            for change, effect in worst.items():
                effects.add_metric((device, *change), effect)
        return effects

    def _newest(self) -> GaugeMetricFamily:
        ages = GaugeMetricFamily(
            "fleetridge_newest_report_age_seconds", "Age of the newest report of a device.", labels=("device",)
        )
        for device, seen in self._read.newest.items():
            ages.add_metric((device,), (self._now - seen).total_seconds())
        return ages

    def _of_gpus(self) -> Iterator[GaugeMetricFamily]:
        verdict = GaugeMetricFamily(
            "fleetridge_gpu_verdict",
            "1 for the verdict on a gpu, with its first reason.",
            labels=(*_OF_GPU, "verdict", "reason"),
        )
        age = GaugeMetricFamily("fleetridge_gpu_report_age_seconds", "Age of a gpu's newest report.", labels=_OF_GPU)
        for gpu in self._read.gpus:
            verdict.add_metric((*_labels(gpu), gpu.verdict.state, gpu.verdict.reason or ""), 1)
            if gpu.last_seen is not None:
                age.add_metric(_labels(gpu), (self._now - gpu.last_seen).total_seconds())
        yield verdict
        yield age

    def _of_roofs(self) -> Iterator[GaugeMetricFamily]:
        pi = GaugeMetricFamily("fleetridge_gpu_pi_tflops", "Rate of arithmetic of a gpu.", labels=_OF_ROOF)
        beta = GaugeMetricFamily("fleetridge_gpu_beta_gbps", "Bandwidth of a gpu's memory.", labels=_OF_ROOF)
        ridge = GaugeMetricFamily(
            "fleetridge_gpu_ridge_flop_per_byte", "Ridge of a gpu, pi over beta.", labels=_OF_ROOF
        )
        deviation = GaugeMetricFamily(
            "fleetridge_gpu_deviation_ratio",
            "Value of a gpu over the median of its peers, less 1.",
            labels=(*_OF_GPU, "roof", "dtype", "regime"),
        )
        for gpu in self._read.gpus:
            shown = _shown(gpu)
            values = {cohort_of(own): {gpu.verdict.gpu_id: own.value} for own in gpu.verdict.roofs}
            for own in shown:
                labels = (*_labels(gpu), own.roof.dtype, own.roof.regime)
                is_pi = own.roof.kind == "compute"
                (pi if is_pi else beta).add_metric(labels, own.value)
                deviation.add_metric((*_labels(gpu), *_roof_labels(own.roof)), -own.loss)
                under = best_betas(cohort_of(own), values)(gpu.verdict.gpu_id) if is_pi else None
                if under is not None:
                    ridge.add_metric(labels, ridge_flop_per_byte(own.value, under[1]))
        yield from (pi, beta, ridge, deviation)


def _labels(gpu: MetricGpu) -> tuple[str, ...]:
    return gpu.device, gpu.cluster, gpu.node, gpu.verdict.gpu_id


def _roof_labels(roof: RoofName) -> tuple[str, str, str]:
    return rate_of(roof.kind), roof.dtype, roof.regime


def _shown(gpu: MetricGpu) -> list[JudgedRoof]:
    """Judged roofs of a gpu, one for each set of labels: of several methods or variants the worst."""
    worst: dict[tuple[str, str, str], JudgedRoof] = {}
    for own in gpu.verdict.roofs:
        key = own.roof.kind, own.roof.dtype, own.roof.regime
        if key not in worst or own.loss > worst[key].loss:
            worst[key] = own
    return list(worst.values())
