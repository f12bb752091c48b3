"""From an evaluation to what is stored and shown of it besides its gpus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from fleetridge.report import RoofKey
from fleetridge_server.answer.band_schemas import CohortShown
from fleetridge_server.answer.evaluation_schemas import EvaluationBody
from fleetridge_server.answer.figure_schemas import FleetFigures
from fleetridge_server.answer.notice_schemas import NoticeShown, UpgradeShown
from fleetridge_server.answer.place_schemas import AbsenceShown
from fleetridge_server.answer.slow_places import MOST_NAMED, slow_places
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.answer.stragglers import FEWEST_GPUS, Job, Worker, costliest, straggler
from fleetridge_server.answer.verdicts import band, level_names, roof_name, unit_of
from fleetridge_server.compare.cohort import Cohort, cohort_order
from fleetridge_server.verdict.epochs import EpochChange, PairedEffect
from fleetridge_server.verdict.evaluation import RULE_VERSION, Evaluation
from fleetridge_server.verdict.evidence import JudgedReport, NodeName
from fleetridge_server.verdict.explanation import Explanation
from fleetridge_server.verdict.judgement import Yardstick
from fleetridge_server.verdict.levels import Level
from fleetridge_server.verdict.members import Member, is_link
from fleetridge_server.verdict.nodes import Absence, RackName
from fleetridge_server.verdict.notices import Notice
from fleetridge_server.verdict.state import STATES
from fleetridge_server.verdict.verdicts import Verdict

# Places that cost most, of each kind.
_MOST_PLACES = 20

_Place = NodeName | RackName
_Explained = Mapping[str, Sequence[Explanation]]
_Upgrades = Mapping[RoofKey, Mapping[EpochChange, PairedEffect]]


def evaluation_body(
    evaluation: Evaluation,
    upgrades: _Upgrades | None = None,
    explained: _Explained | None = None,
    figures: FleetFigures | None = None,
) -> EvaluationBody:
    """
    What an evaluation says of the device, its cohorts, nodes and racks.

    Args:
        evaluation: of the device.
        upgrades: with which it was made (`Fleet.upgrades`).
        explained: `explanation.explanations` of it.
        figures: `figures.evaluated_figures` of it.
    """
    counts = Counter(state.state for state in evaluation.states.values())
    verdicts = [verdict for own in evaluation.verdicts.values() for verdict in own]
    there = [
        verdict
        for gpu_id, own in evaluation.verdicts.items()
        if _is_there(evaluation, gpu_id)
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
        upgrades=tuple(_upgrades(upgrades or {})),
        figures=figures,
    )


def _is_there(evaluation: Evaluation, gpu_id: str) -> bool:
    """Whether a job could use the gpu."""
    state = evaluation.states.get(gpu_id)
    return state is not None and state.state != "missing"


def _cohorts(verdicts: Iterable[Verdict], members: Mapping[Cohort, Sequence[Member]]) -> Iterable[CohortShown]:
    sticks: dict[Cohort, dict[tuple[Level, ...], Yardstick]] = defaultdict(dict)
    seen: set[tuple[int, int]] = set()
    for verdict in verdicts:
        cohort, stick = verdict.member.cohort, verdict.yardstick
        shared = id(cohort), id(stick)
        if shared not in seen:
            seen.add(shared)
            sticks[cohort].setdefault(stick.levels, stick)
    for cohort in sorted(sticks, key=cohort_order):
        groups = sticks[cohort]
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
    by_cohort: dict[Cohort, list[Worker]] = defaultdict(list)
    for verdict in verdicts:
        member = verdict.member
        by_cohort[member.cohort].append(Worker(member.gpu_id, member.value))
    for cohort in sorted(by_cohort, key=cohort_order):
        if len(by_cohort[cohort]) >= FEWEST_GPUS:
            yield straggler(_job(cohort, None, by_cohort[cohort]))
    for place_of in (_rack, _node):
        yield from costliest(_jobs(verdicts, place_of), _MOST_PLACES)


def _jobs(verdicts: Iterable[Verdict], place_of: Callable[[JudgedReport], _Place | None]) -> Iterable[Job]:
    groups: dict[tuple[_Place, int], list[Worker]] = defaultdict(list)
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
            groups[place, number].append(Worker(member.gpu_id, member.value))
    cohorts = list(numbers)
    for (place, number), workers in groups.items():
        yield _job(cohorts[number], place, workers)


def _rack(report: JudgedReport) -> _Place | None:
    return None if report.node is None or report.rack is None else RackName(report.node.cluster, report.rack)


def _node(report: JudgedReport) -> _Place | None:
    return report.node


def _job(cohort: Cohort, place: _Place | None, workers: Sequence[Worker]) -> Job:
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
