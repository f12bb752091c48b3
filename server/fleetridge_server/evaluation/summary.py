"""What is kept of an evaluation beside its verdicts: cohorts, notices, slow places, stragglers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort, Conditions, cohort_order
from fleetridge_server.engine.evaluation import Evaluation
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.explanation import Explanation, Onset, place_onset, shared_causes
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.gpu_state import STATES
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.health import HEALTH_CODES, HealthCode
from fleetridge_server.engine.limits import Limits
from fleetridge_server.engine.nodes import Absence, straggler_cost
from fleetridge_server.engine.notices import Notice
from fleetridge_server.engine.remedies import REMEDIES, SharedCause
from fleetridge_server.engine.rule import RULE_VERSION
from fleetridge_server.engine.slow_places import PlaceVerdict, RackName
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect
from fleetridge_server.engine.values import Member, is_link
from fleetridge_server.engine.verdict import Verdict
from fleetridge_server.verdicts.evaluation_shapes import (
    AbsenceShown,
    EvaluationBody,
    FleetFigures,
    NodeHealth,
    NoticeShown,
    SlowPlace,
    StragglerShown,
    UpgradeShown,
)
from fleetridge_server.verdicts.roof_shapes import RoofName
from fleetridge_server.verdicts.sentence import band, level_names, roof_name, unit_of
from fleetridge_server.verdicts.verdict_shapes import CohortShown

# A job of one gpu waits for nobody.
FEWEST_GPUS = 2


class JobGpu(NamedTuple):
    """A gpu of a job, and its value in the roof that the job is bound by."""

    gpu_id: str
    value: float


@fast_dataclass
class Job:
    """A synchronous job over a group of gpus, at least one, in one roof; `scope` is what they are all of."""

    scope: Literal["device", "rack", "node"]
    cluster: str | None
    name: str | None
    roof: RoofName
    unit: str
    conditions: Conditions
    workers: Sequence[JobGpu]

    @property
    def loss(self) -> float:
        """Part of the sum of all rates that waiting costs."""
        values = [worker.value for worker in self.workers]
        return 1 - len(values) * min(values) / sum(values)


def straggler(job: Job) -> StragglerShown:
    """Cost of one job's slowest gpu."""
    cost = straggler_cost([worker.value for worker in job.workers])
    slowest = min(job.workers, key=lambda worker: (worker.value, worker.gpu_id))
    return StragglerShown(
        scope=job.scope,
        cluster=job.cluster,
        name=job.name,
        roof=job.roof,
        unit=job.unit,
        conditions=job.conditions,
        n=cost.n,
        slowest=cost.slowest,
        slowest_gpu_id=slowest.gpu_id,
        loss=cost.loss,
        without=cost.without,
        best=cost.best,
    )


def costliest(jobs: Iterable[Job], most: int) -> list[StragglerShown]:
    """The jobs that lose most, each place once in the roof in which it loses most."""
    worst: dict[tuple[str | None, str | None], tuple[float, Job]] = {}
    for job in jobs:
        if len(job.workers) >= FEWEST_GPUS:
            place, loss = (job.cluster, job.name), job.loss
            held = worst.get(place)
            if held is None or loss > held[0]:
                worst[place] = loss, job
    ordered = sorted(worst.values(), key=lambda own: (-own[0], own[1].cluster or "", own[1].name or ""))
    return [straggler(job) for _, job in ordered[:most]]


# A place or a notice may be about half of a fleet; so many names do to look one up, and the count says the rest.
MOST_NAMED = 100


def slow_places(
    places: Sequence[PlaceVerdict], explained: Mapping[str, Sequence[Explanation]]
) -> tuple[SlowPlace, ...]:
    """Places (worst first) in each roof in which they are slow, with the reasons of all accused gpus, by id."""
    causes = shared_causes(explained)
    roofs: dict[NodeName | RackName, list[RoofName]] = defaultdict(list)
    for slow in places:
        roofs[slow.place].append(roof_name(slow.cohort.roof))
    return tuple(
        _slow_place(slow, tuple(roofs[slow.place]), causes.get((slow.place, slow.cohort)), place_onset(slow, explained))
        for slow in places
    )


def _slow_place(
    slow: PlaceVerdict, roofs: tuple[RoofName, ...], cause: SharedCause | None, since: Onset | None
) -> SlowPlace:
    return SlowPlace(
        cluster=slow.place.cluster,
        name=slow.place.name,
        roof=roof_name(slow.cohort.roof),
        conditions=slow.cohort.conditions,
        loss=slow.loss,
        q=slow.q,
        compared=slow.of,
        accused=slow.is_accused,
        gpus=len(slow.gpu_ids),
        gpu_ids=slow.gpu_ids[:MOST_NAMED],
        roofs=roofs,
        slow_since=None if since is None else since.since,
        slow_since_is_bound=since is not None and since.is_bound,
        cause=None if cause is None else cause.code,
        cause_text=None if cause is None else cause.text,
        facts=() if cause is None else cause.facts,
        next_step=_next_step(slow) if cause is None else cause.next_step,
    )


def _next_step(slow: PlaceVerdict) -> str:
    return REMEDIES["whole_rack" if isinstance(slow.place, RackName) else "whole_node"].next_step


# Places that cost most, of each kind.
_MOST_PLACES = 20

_NodeOrRack = NodeName | RackName
_Explained = Mapping[str, Sequence[Explanation]]
_Upgrades = Mapping[RoofKey, Mapping[EpochChange, PairedEffect]]


def evaluation_body(
    evaluation: Evaluation,
    upgrades: _Upgrades | None = None,
    explained: _Explained | None = None,
    figures: FleetFigures | None = None,
) -> EvaluationBody:
    """What an evaluation says of the device, its cohorts, nodes and racks."""
    counts = Counter(state.state for state in evaluation.states.values())
    verdicts = [verdict for own in evaluation.verdicts.values() for verdict in own]
    gone = {gpu_id for absence in evaluation.absences for gpu_id in absence.gpu_ids}
    # Those that a job could use.
    there = [
        verdict
        for gpu_id, own in evaluation.verdicts.items()
        if gpu_id in evaluation.states and gpu_id not in gone
        for verdict in own
        if verdict.member.in_window and not is_link(verdict.member.cohort.roof)
    ]
    return EvaluationBody(
        as_of=evaluation.as_of,
        rule_version=RULE_VERSION,
        gpus=len(evaluation.states),
        counts={state: counts[state] for state in STATES if counts[state]},
        cohorts=tuple(_cohorts(verdicts, evaluation.cohorts)),
        notices=tuple(_notice(notice) for notice in evaluation.notices),
        slow_nodes=slow_places(evaluation.nodes, explained or {}),
        slow_racks=slow_places(evaluation.racks, explained or {}),
        absences=tuple(_absence(absence) for absence in evaluation.absences),
        stragglers=tuple(_stragglers(there)),
        differing=tuple(sorted(gpu_id for gpu_id, own in evaluation.states.items() if own.differs)),
        upgrades=tuple(_upgrades(upgrades or {})),
        figures=figures,
        health=tuple(_health(evaluation)),
    )


def _health(evaluation: Evaluation) -> Iterable[NodeHealth]:
    """What needs action, by node and kind; each gpu is where its newest report behind a verdict came from."""
    gpus: dict[tuple[NodeName | None, HealthCode], list[str]] = defaultdict(list)
    for gpu_id, faults in sorted(evaluation.health.items()):
        reports = [verdict.member.newest.report for verdict in evaluation.verdicts.get(gpu_id, ())]
        newest = max(reports, key=lambda own: own.ordered_at, default=None)
        for code in {own.code for own in faults}:
            gpus[None if newest is None else newest.node, code].append(gpu_id)
    order = sorted(gpus, key=lambda own: (HEALTH_CODES.index(own[1]), own[0] is None, own[0] or ()))
    for node, code in order:
        cluster, name = (None, None) if node is None else node
        yield NodeHealth(cluster, name, code, tuple(gpus[node, code]))


def _is_there(evaluation: Evaluation, gpu_id: str) -> bool:
    """Whether a job could use the gpu."""
    state = evaluation.states.get(gpu_id)
    return state is not None and state.state != "missing"


def _cohorts(verdicts: Iterable[Verdict], members: Mapping[Cohort, Sequence[Member]]) -> Iterable[CohortShown]:
    all_limits: dict[Cohort, dict[tuple[Level, ...], Limits]] = defaultdict(dict)
    seen: set[tuple[int, int]] = set()
    for verdict in verdicts:
        cohort, limits = verdict.member.cohort, verdict.limits
        shared = id(cohort), id(limits)
        if shared not in seen:
            seen.add(shared)
            all_limits[cohort].setdefault(limits.levels, limits)
    for cohort in sorted(all_limits, key=cohort_order):
        groups = all_limits[cohort]
        yield CohortShown(
            roof=roof_name(cohort.roof),
            unit=unit_of(cohort.roof),
            conditions=cohort.conditions,
            n=sum(member.in_window for member in members[cohort]) or len(members[cohort]),
            bands=tuple(band(groups[levels]) for levels in sorted(groups)),
        )


def _notice(notice: Notice) -> NoticeShown:
    roof = notice.roof if notice.cohort is None else notice.cohort.roof
    return NoticeShown(
        kind=notice.kind,
        text=notice.text,
        roof=None if roof is None else roof_name(roof),
        conditions=None if notice.cohort is None else notice.cohort.conditions,
        effect=notice.effect,
        low=notice.low,
        high=notice.high,
        levels=level_names(notice.levels),
        gpus=len(notice.gpu_ids),
        gpu_ids=notice.gpu_ids[:MOST_NAMED],
    )


def _absence(absence: Absence) -> AbsenceShown:
    return AbsenceShown(
        cluster=absence.node.cluster,
        node=absence.node.name,
        gpu_ids=absence.gpu_ids,
        unnamed=absence.unnamed,
        never_reported=absence.never_reported,
    )


def _stragglers(verdicts: Sequence[Verdict]) -> Iterable[StragglerShown]:
    by_cohort: dict[Cohort, list[JobGpu]] = defaultdict(list)
    for verdict in verdicts:
        member = verdict.member
        by_cohort[member.cohort].append(JobGpu(member.gpu_id, member.value))
    for cohort in sorted(by_cohort, key=cohort_order):
        if len(by_cohort[cohort]) >= FEWEST_GPUS:
            yield straggler(_job(cohort, None, by_cohort[cohort]))
    for place_of in (_rack, _node):
        yield from costliest(_jobs(verdicts, place_of), _MOST_PLACES)


def _jobs(verdicts: Iterable[Verdict], place_of: Callable[[JudgedReport], _NodeOrRack | None]) -> Iterable[Job]:
    groups: dict[tuple[_NodeOrRack, int], list[JobGpu]] = defaultdict(list)
    # By the cohort's number: a place is looked up for every gpu and roof, and to find both takes three times as long.
    numbers: dict[Cohort, int] = {}
    by_object: dict[int, int] = {}
    for verdict in verdicts:
        member = verdict.member
        place = place_of(member.runs[0].report)
        if place is not None:
            number = by_object.get(id(member.cohort))
            if number is None:
                number = by_object[id(member.cohort)] = numbers.setdefault(member.cohort, len(numbers))
            groups[place, number].append(JobGpu(member.gpu_id, member.value))
    cohorts = list(numbers)
    for (place, number), workers in groups.items():
        yield _job(cohorts[number], place, workers)


def _rack(report: JudgedReport) -> _NodeOrRack | None:
    return None if report.node is None or report.rack is None else RackName(report.node.cluster, report.rack)


def _node(report: JudgedReport) -> _NodeOrRack | None:
    return report.node


def _job(cohort: Cohort, place: _NodeOrRack | None, workers: Sequence[JobGpu]) -> Job:
    return Job(
        scope="device" if place is None else "rack" if isinstance(place, RackName) else "node",
        cluster=None if place is None else place.cluster,
        name=None if place is None else place.name,
        roof=roof_name(cohort.roof),
        unit=unit_of(cohort.roof),
        conditions=cohort.conditions,
        workers=workers,
    )


def _upgrades(upgrades: _Upgrades) -> Iterable[UpgradeShown]:
    for roof, effects in upgrades.items():
        for change, effect in effects.items():
            yield UpgradeShown(
                roof=roof_name(roof),
                unit=unit_of(roof),
                factor=change.before.factor,
                before=change.before.name,
                after=change.after.name,
                n=effect.n,
                effect=effect.effect,
                low=effect.low,
                high=effect.high,
                confidence=effect.confidence,
            )
