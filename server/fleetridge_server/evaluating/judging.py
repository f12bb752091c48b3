"""
The judgement of one device: from what is stored to all that is said of its gpus. Nothing is written.

Answers about a past that nobody evaluated are made by the same function as stored evaluations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge.peaks import published_beta, published_pi
from fleetridge.report import RoofKey
from fleetridge_server.answer.evaluation_schemas import EvaluationBody
from fleetridge_server.answer.evaluations import evaluation_body
from fleetridge_server.answer.figures import evaluated_figures
from fleetridge_server.answer.verdict_schemas import GpuVerdict
from fleetridge_server.answer.verdicts import BandOf, bands, gpu_verdict
from fleetridge_server.evaluating.gpu_history import GpuHistory, fleet_drifts, fleet_upgrades, has_drifts
from fleetridge_server.store.cluster_gpus import ClusterGpus
from fleetridge_server.store.due import Population
from fleetridge_server.store.gpu_histories import histories
from fleetridge_server.store.inventory import expected_nodes
from fleetridge_server.store.marks import marks_by_engine
from fleetridge_server.store.models import Device
from fleetridge_server.store.rosters import rosters_of
from fleetridge_server.verdict.drift import Drift
from fleetridge_server.verdict.epochs import EpochChange, PairedEffect
from fleetridge_server.verdict.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.verdict.explanation import Explanation, explanations
from fleetridge_server.verdict.histories import floors
from fleetridge_server.verdict.marks import Mark


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    All that is said of one device at one time, and what it was made with.

    Attributes:
        device_name: canonical.
        drifts: of each gpu by roof, before what peers share is taken off.
        marks: the ids of the marks that were looked at.
        upgrades: effects of changes that gpus met, by roof.
    """

    device_name: str
    evaluation: Evaluation
    explanations: Mapping[str, list[Explanation]]
    drifts: Mapping[str, Mapping[RoofKey, Drift]]
    marks: Mapping[Mark, int]
    upgrades: Mapping[RoofKey, Mapping[EpochChange, PairedEffect]]

    def body(self, there: Sequence[ClusterGpus] | None = None) -> EvaluationBody:
        """What is said besides the gpus; `there` says where these are now."""
        figures = evaluated_figures(self.evaluation, self.device_name, there)
        return evaluation_body(self.evaluation, self.upgrades, self.explanations, figures)

    def gpu(self, gpu_id: str, *, band_of: BandOf | None = None) -> GpuVerdict:
        """What is said of one gpu, which has a state."""
        return gpu_verdict(
            gpu_id,
            self.evaluation,
            self.explanations,
            self.drifts,
            self.marks,
            identity_conflict=self.evaluation.states[gpu_id].identity_conflict,
            band_of=band_of,
        )

    def gpus(self) -> Iterator[GpuVerdict]:
        """What is said of each gpu, in the order of their ids."""
        band_of = bands()
        return (self.gpu(gpu_id, band_of=band_of) for gpu_id in sorted(self.evaluation.states))


def judged(
    session: Session, population: Population, as_of: datetime, *, schedule: timedelta | None = None
) -> Judgement:
    """
    Judge the gpus of one device by what was reported up to a time.

    Args:
        session: to read with; of one state of the data.
        population: of which device.
        as_of: the time.
        schedule: how often each gpu should be measured.
    """
    known = histories(session, population, as_of)
    marks = marks_by_engine(session, simulated=population.simulated, as_of=as_of)
    reports = [report for history in known.values() for report in history.reports]
    drifts = _drifts(known, as_of)
    name = session.scalars(select(Device.name).where(Device.id == population.device_id)).one()
    fleet = Fleet(
        reports=reports,
        rosters=rosters_of(session, population, known, as_of),
        inventory=expected_nodes(session, population),
        marks=list(marks),
        drifts=drifts,
        upgrades=fleet_upgrades(known),
        published=_published(name, {roof for report in reports for roof in report.roofs}),
        schedule=schedule,
    )
    evaluation = evaluate(fleet, as_of)
    return Judgement(name, evaluation, explanations(evaluation, drifts), drifts, marks, fleet.upgrades)


def _drifts(known: Mapping[str, GpuHistory], as_of: datetime) -> dict[str, dict[RoofKey, Drift]]:
    scales = (
        floors({gpu_id: history.reports for gpu_id, history in known.items()}, as_of)
        if has_drifts(known.values())
        else {}
    )
    return fleet_drifts(known, scales)


def _published(name: str, roofs: Iterable[RoofKey]) -> dict[RoofKey, float]:
    peaks = {
        roof: published_pi(name, roof.dtype) if roof.kind == "compute" else published_beta(name)
        for roof in roofs
        if roof.level == "device"
    }
    return {roof: peak.value for roof, peak in peaks.items() if peak is not None}
