"""Verdicts as families of metrics; pure but for the library's types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import final, get_args

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_server.answer.judged_roof_schemas import JudgedRoof
from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.compare.roof_words import rate_of
from fleetridge_server.store.metrics import MetricGpu, MetricsRead
from fleetridge_server.verdict.notices import NoticeKind
from fleetridge_server.verdict.state import STATES

_OF_GPU = ("device", "cluster", "node", "gpu")
_OF_ROOF = (*_OF_GPU, "dtype", "regime")


@final
class VerdictCollector(Collector):
    """
    Metrics from what was read, made when they are collected.

    Args:
        read: from the database.
        now: time by which ages are counted.
    """

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
        for device, told in self._read.devices:
            for state in STATES:
                counts.add_metric((device, state), told.body.counts.get(state, 0))
            age.add_metric((device,), (self._now - told.as_of).total_seconds())
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
        for device, told in self._read.devices:
            said = Counter(notice.kind for notice in told.body.notices)
            for kind in get_args(NoticeKind):
                notices.add_metric((device, kind), said[kind])
        return notices

    def _upgrades(self) -> GaugeMetricFamily:
        effects = GaugeMetricFamily(
            "fleetridge_upgrade_effect_ratio",
            "What a change of driver, library or setting did to the gpus that met it, after over before, less 1.",
            labels=("device", "factor", "before", "after", "roof", "dtype", "regime"),
        )
        for device, told in self._read.devices:
            worst: dict[tuple[str, ...], float] = {}
            for shown in told.body.upgrades:
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
            betas = {own.roof.regime: own.value for own in shown if own.roof.kind == "memory"}
            for own in shown:
                labels = (*_labels(gpu), own.roof.dtype, own.roof.regime)
                is_pi = own.roof.kind == "compute"
                (pi if is_pi else beta).add_metric(labels, own.value)
                deviation.add_metric((*_labels(gpu), *_roof_labels(own.roof)), -own.loss)
                under = betas.get(own.roof.regime, betas.get("burst"))
                if is_pi and under is not None:
                    ridge.add_metric(labels, ridge_flop_per_byte(own.value, under))
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
