"""
The judgement of one device: from what is stored of its gpus to all that is said of them, for now or for a past time.

Nothing is written here. Stored evaluations and answers about a past that nobody evaluated are made by the same function
(`judge_device`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleetridge.judged_kernels import JUDGED_LEVEL
from fleetridge.report import RoofKey
from fleetridge_server.db.tables import Device, Gpu
from fleetridge_server.engine.cohort import Cohort, Span
from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.explanation import Explanation, explanations
from fleetridge_server.engine.gpu_state import Mark
from fleetridge_server.engine.groups import level_name
from fleetridge_server.engine.plausibility import published_peak
from fleetridge_server.engine.rule import RULE_VERSION
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect, floors
from fleetridge_server.engine.values import Run
from fleetridge_server.evaluation.figures import evaluated_figures
from fleetridge_server.evaluation.gpu_history import GpuHistory, fleet_drifts, fleet_upgrades, has_drifts
from fleetridge_server.evaluation.kept_histories import histories
from fleetridge_server.evaluation.summary import evaluation_body
from fleetridge_server.fleet.expected import expected_nodes, rosters_of, slots_of
from fleetridge_server.fleet.find import rows_of_gpus
from fleetridge_server.fleet.marks import marks_by_engine
from fleetridge_server.verdicts.evaluation_shapes import (
    EvaluationBody,
    References,
    cohort_of,
    reference_key,
    references_of,
)
from fleetridge_server.verdicts.fleet_order import (
    CohortColumn,
    FleetOrder,
    OrderedGpu,
    cohort_column,
    fleet_order,
    microseconds,
)
from fleetridge_server.verdicts.record import Recorder, VerdictRecord
from fleetridge_server.verdicts.series import DeviceGroup
from fleetridge_server.verdicts.stored import EvaluationRef, Unstored, evaluation_at

_NOTHING_KNOWN = Factors()


@dataclass(frozen=True)
class Judgement:
    """
    All that is said of one device at one time, and what it was made with.

    Attributes:
        device_name: canonical.
        drifts: of each gpu by roof, before what peers share is taken off.
        marks: the ids of the marks that were looked at.
        upgrades: effects of changes that gpus met, by roof.
        rows: of the gpus that ever reported, by id.
    """

    device_name: str
    evaluation: Evaluation
    explanations: Mapping[str, list[Explanation]]
    drifts: Mapping[str, Mapping[RoofKey, Drift]]
    marks: Mapping[Mark, int]
    upgrades: Mapping[RoofKey, Mapping[EpochChange, PairedEffect]]
    rows: Mapping[str, int]

    @cached_property
    def body(self) -> EvaluationBody:
        """What is said besides the gpus."""
        figures = evaluated_figures(self.evaluation, self.device_name)
        return evaluation_body(self.evaluation, self.upgrades, self.explanations, figures)

    @cached_property
    def references(self) -> References:
        """What the gpus are held against, by `reference_key`."""
        return references_of(self.body.cohorts)

    @cached_property
    def recorder(self) -> Recorder:
        """Makes what is kept of each gpu."""
        return Recorder(self.evaluation, self.explanations, self.drifts, self.marks, self.references)

    def records(self) -> Iterator[VerdictRecord]:
        """What is kept of each gpu, in the order of their ids."""
        return (self.recorder.record(gpu_id) for gpu_id in sorted(self.evaluation.states))

    def order(self, losses: Mapping[str, float | None]) -> FleetOrder:
        """The gpus that ever reported, worst first, by the largest loss that the record of each says."""
        newest = self._newest_runs()
        return fleet_order(
            (
                self._ordered(gpu_id, losses[gpu_id], newest.get(gpu_id))
                for gpu_id in self.evaluation.states
                if gpu_id in self.rows
            ),
            Factors._fields,
        )

    def columns(self, order: FleetOrder) -> list[CohortColumn]:
        """What the gpus count for in each cohort, in the order of `summary.cohorts`."""
        numbers = {cohort_of(own): number for number, own in enumerate(self.body.cohorts)}
        members: list[list[tuple[int, float, int, bool]]] = [[] for _ in numbers]
        groups: dict[tuple[int, int], int] = {}
        for gpu_id, verdicts in self.evaluation.verdicts.items():
            row = self.rows.get(gpu_id)
            for verdict in verdicts if row is not None else ():
                cohort, limits, member = verdict.cohort, verdict.limits, verdict.member
                shared = id(cohort), id(limits)
                if shared not in groups:
                    key = reference_key(cohort.roof, cohort.conditions, limits.levels)
                    groups[shared] = self.references[key].group
                counts = member.in_window or not limits.is_recent
                members[numbers[cohort]].append((row or 0, member.value, groups[shared], counts))
        return [cohort_column(order, own) for own in members]

    def _ordered(self, gpu_id: str, loss: float | None, newest: Run | None) -> OrderedGpu:
        state = self.evaluation.states[gpu_id]
        factors = _NOTHING_KNOWN if newest is None else newest.report.factors
        at = 0 if newest is None else microseconds(newest.report.ordered_at)
        levels = [level_name(reading) for reading in factors]
        return OrderedGpu(self.rows[gpu_id], gpu_id, state.state, state.last_state, loss, at, levels)

    def _newest_runs(self) -> dict[str, Run]:
        """Newest run of each gpu over all its judged roofs."""
        found: dict[str, Run] = {}
        for gpu_id, verdicts in self.evaluation.verdicts.items():
            runs = [verdict.member.runs[0] for verdict in verdicts]
            if runs:
                found[gpu_id] = max(runs, key=lambda run: (run.report.ordered_at, run.report.report_id))
        return found


def judge_device(
    session: Session,
    device_group: DeviceGroup,
    as_of: datetime,
    *,
    schedule: timedelta | None = None,
) -> Judgement:
    """
    Judge the gpus of one device by what was reported up to a time.

    Args:
        session: to read with; of one state of the data.
        device_group: of which device.
        as_of: the time.
        schedule: how often each gpu should be measured.
    """
    known = histories(session, device_group, as_of)
    marks = marks_by_engine(session, simulated=device_group.simulated, as_of=as_of)
    reports = [report for history in known.values() for report in history.reports]
    drifts = _drifts(known, as_of)
    name = session.scalars(select(Device.name).where(Device.id == device_group.device_id)).one()
    fleet = Fleet(
        reports=reports,
        rosters=rosters_of(session, device_group, known, as_of),
        inventory=expected_nodes(session, device_group),
        marks=list(marks),
        drifts=drifts,
        upgrades=fleet_upgrades(known),
        published=_published(name, {roof for report in reports for roof in report.roofs}),
        schedule=schedule,
        slots=slots_of(session, device_group),
    )
    evaluation = evaluate(fleet, as_of)
    rows = rows_of_gpus(session, known, device_id=device_group.device_id, simulated=device_group.simulated)
    said = explanations(evaluation, drifts)
    return Judgement(name, evaluation, said, drifts, marks, fleet.upgrades, rows)


def _drifts(known: Mapping[str, GpuHistory], as_of: datetime) -> dict[str, dict[RoofKey, Drift]]:
    scales: dict[Cohort, float] = (
        floors({gpu_id: history.reports for gpu_id, history in known.items()}, as_of)
        if has_drifts(known.values())
        else {}
    )
    return fleet_drifts(known, scales)


def _published(name: str, roofs: Iterable[RoofKey]) -> dict[RoofKey, float]:
    peaks = {roof: published_peak(roof.kind, roof.dtype, name) for roof in roofs if roof.level == JUDGED_LEVEL}
    return {roof: peak for roof, peak in peaks.items() if peak is not None}


# A second or two of work; for larger fleets somebody is asked to have it done once and stored.
MOST_GPUS_AT_ONCE = 5000


def evaluation_for(session: Session, device_id: int, span: Span, *, explicit: bool) -> EvaluationRef | None:
    """
    The evaluation that answers for a time; for now (not `explicit`) only a stored one.

    The newest, for every time since; one that is stored as of the very time with all its verdicts; else, of a fleet
    that is small enough, one that is made for the answer; else the stored one before, of which at least figures, order
    and states are kept; None where there is none.

    Args:
        session: to read in.
        device_id: of the device.
        span: time, and real or simulated gpus.
        explicit: whether the time was asked for; for now only a stored evaluation answers.
    """
    found = evaluation_at(session, device_id, span, explicit=explicit)
    # What somebody had stored of an earlier time does not know what was reported since.
    is_of_then = found is not None and (found.is_current or (found.has_verdicts and found.as_of == span.as_of))
    if not explicit or is_of_then:
        return found
    if _gpus(session, device_id, span) > MOST_GPUS_AT_ONCE:
        return found
    return _made(session, DeviceGroup(device_id, span.simulated), span)


def _made(session: Session, device_group: DeviceGroup, span: Span) -> EvaluationRef:
    judgement = judge_device(session, device_group, span.as_of)
    records = {record.gpu_id: record for record in judgement.records()}
    order = judgement.order({gpu_id: record.loss for gpu_id, record in records.items()})
    return EvaluationRef(
        evaluation_id=None,
        device_id=device_group.device_id,
        simulated=device_group.simulated,
        as_of=span.as_of,
        made_at=None,
        rule_version=RULE_VERSION,
        until=span.as_of,
        is_current=False,
        historical=True,
        body=judgement.body,
        references=judgement.references,
        unstored=Unstored(records, order, judgement.columns(order)),
    )


def _gpus(session: Session, device_id: int, span: Span) -> int:
    of_device = select(func.count()).select_from(Gpu)
    return session.scalar(of_device.where(Gpu.device_id == device_id, Gpu.simulated.is_(span.simulated))) or 0
