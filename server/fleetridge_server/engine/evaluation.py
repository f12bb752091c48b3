"""
The evaluation of one device: reports in, everything that is said of its gpus out.

The order of the reports never matters, and nothing is remembered from one evaluation to the next.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.collapses import NodeCollapse, without_collapses
from fleetridge_server.engine.departures import Departure, NodeLists, departures
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.fleet_drift import Drifts, own_drifts
from fleetridge_server.engine.gpu_state import (
    GpuCase,
    GpuState,
    Mark,
    MarkScope,
    covering,
    excuse_of,
    gpu_state,
    is_retired,
    retirement,
)
from fleetridge_server.engine.health import HealthFault, health_faults
from fleetridge_server.engine.nodes import (
    Absence,
    ExpectedNode,
    NodeRoster,
    absences,
    newest_rosters,
)
from fleetridge_server.engine.notices import (
    Notice,
    cohort_notices,
    collapse_notices,
    departure_notices,
    device_notices,
    setting_notices,
    slow_cluster_notices,
    upgrade_notices,
)
from fleetridge_server.engine.plausibility import far_from_peers
from fleetridge_server.engine.slow_places import (
    PlaceVerdict,
    accused_together,
    slow_nodes,
    slow_racks,
)
from fleetridge_server.engine.slow_settings import SlowSetting, slow_settings
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect, proven_steps
from fleetridge_server.engine.values import Member, by_gpu, is_link, members_by_cohort
from fleetridge_server.engine.verdict import Verdict, device_verdicts


@dataclass(frozen=True, slots=True)
class Fleet:
    """
    What is known of the gpus of one device.

    Attributes:
        reports: of at least the newest ten runs of each gpu, in any order.
        rosters, inventory: what should be there.
        marks: decisions of people.
        drifts: of each gpu by roof; they change with a gpu's own reports only, so a caller may keep them.
        upgrades: effects of changes that gpus met, by roof; kept likewise.
        published: published peak of each roof, in its unit, where known.
        schedule: how often each gpu should be measured.
        slots: bus address of each gpu, as far as it is known.
    """

    reports: Iterable[JudgedReport]
    rosters: Sequence[NodeRoster] = ()
    inventory: Sequence[ExpectedNode] = ()
    marks: Sequence[Mark] = ()
    drifts: Drifts = field(default_factory=dict)
    upgrades: Mapping[RoofKey, Mapping[EpochChange, PairedEffect]] = field(default_factory=dict)
    published: Mapping[RoofKey, float] = field(default_factory=dict)
    schedule: timedelta | None = None
    slots: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    What is said of one device at one time; verdicts of each gpu, judged roofs before links.

    Retired gpus are in no cohort and have no state; `nodes` and `racks` are slow as a whole. So are `excused_nodes`, of
    which marks excuse most gpus; their gpus are accused with them all the same; `health`
    has the gpus that need somebody's action whatever their rates are.
    """

    as_of: datetime
    cohorts: Mapping[Cohort, Sequence[Member]]
    verdicts: Mapping[str, Sequence[Verdict]]
    states: Mapping[str, GpuState]
    notices: tuple[Notice, ...]
    nodes: tuple[PlaceVerdict, ...]
    racks: tuple[PlaceVerdict, ...]
    settings: tuple[SlowSetting, ...]
    absences: tuple[Absence, ...]
    departures: Mapping[str, Departure]
    excused_nodes: tuple[PlaceVerdict, ...] = ()
    health: Mapping[str, tuple[HealthFault, ...]] = field(default_factory=dict)


def evaluate(fleet: Fleet, as_of: datetime) -> Evaluation:
    """All that is said of one device's gpus at a time."""
    histories = by_gpu(fleet.reports, as_of)
    marks = _marks_by_gpu(fleet.marks, histories, as_of)
    retired = frozenset(gpu_id for gpu_id, own in marks.items() if is_retired(own))
    named = {gpu_id for entry in fleet.inventory for gpu_id in entry.gpu_ids}
    lists = NodeLists(histories, newest_rosters(fleet.rosters), fleet.slots)
    namesakes = lists.of_namesakes()
    departed = departures(lists, namesakes, named, fleet.schedule)
    out_of_fleet = retired | departed.keys()
    alive = {gpu_id: reports for gpu_id, reports in histories.items() if gpu_id not in out_of_fleet}
    cohorts, collapses = _counted(members_by_cohort(alive, as_of))
    doubted = _beside_peers(cohorts)
    if doubted:
        cohorts = {
            cohort: [member for member in members if cohort not in doubted.get(member.gpu_id, ())]
            for cohort, members in cohorts.items()
        }
    judged = device_verdicts(cohorts, proven_steps(fleet.upgrades))
    roofs = [verdict for verdict in judged.verdicts if not is_link(verdict.member.cohort.roof)]
    drifts, drift_notices = own_drifts(fleet.drifts, judged.verdicts)
    slow = slow_nodes(roofs)
    excused = [node for node in slow if _is_excused(node, roofs, marks)]
    nodes = [node for node in slow if node not in excused]
    racks = slow_racks(nodes, roofs)
    gone = absences(histories, fleet.rosters, fleet.inventory, retirement(fleet.marks, as_of), departed, namesakes)
    by_id: dict[str, list[Verdict]] = defaultdict(list)
    settings = slow_settings({own.cohort: own.settings for own in judged.cohorts}, roofs)
    # Of a gpu that is in several the last is named: a setting explains its node, and a rack its nodes.
    for verdict in accused_together(judged.verdicts, [*slow, *racks], settings):
        by_id[verdict.gpu_id].append(verdict)
    return Evaluation(
        as_of=as_of,
        cohorts=cohorts,
        verdicts=by_id,
        states=_states(alive, by_id, drifts, marks, fleet, gone, doubted, as_of),
        notices=(
            *(notice for cohort in judged.cohorts for notice in cohort_notices(cohort, fleet.published)),
            *device_notices(judged.cohorts),
            *collapse_notices(collapses),
            *setting_notices(settings),
            *departure_notices(departed.values()),
            *slow_cluster_notices((own for found in by_id.values() for own in found), [*nodes, *racks, *settings]),
            *drift_notices,
            *upgrade_notices(fleet.upgrades),
        ),
        nodes=tuple(nodes),
        racks=tuple(racks),
        settings=tuple(settings),
        absences=tuple(gone),
        departures=departed,
        excused_nodes=tuple(excused),
        health=health_faults(alive, by_id),
    )


def _counted(
    cohorts: Mapping[Cohort, Sequence[Member]],
) -> tuple[dict[Cohort, Sequence[Member]], list[NodeCollapse]]:
    """Members by what counts of them, and the collapses of nodes that were set aside in judged roofs."""
    counted: dict[Cohort, Sequence[Member]] = {}
    collapses: list[NodeCollapse] = []
    for cohort, members in cohorts.items():
        counted[cohort], fallen = without_collapses(members)
        collapses += [] if is_link(cohort.roof) else fallen
    return counted, collapses


def _beside_peers(cohorts: Mapping[Cohort, Sequence[Member]]) -> dict[str, set[Cohort]]:
    """Gpus whose rates nothing of their kind can have, by what the others do, with the cohorts in which they do."""
    found: dict[str, set[Cohort]] = defaultdict(set)
    for cohort, members in cohorts.items():
        if is_link(cohort.roof):
            continue
        for gpu_id in far_from_peers({member.gpu_id: member.value for member in members if member.in_window}):
            found[gpu_id].add(cohort)
    return found


def _marks_by_gpu(
    marks: Sequence[Mark], histories: Mapping[str, Sequence[JudgedReport]], as_of: datetime
) -> dict[str, tuple[Mark, ...]]:
    if not marks:
        return {}
    found: dict[str, tuple[Mark, ...]] = {}
    for gpu_id, reports in histories.items():
        own = covering(marks, _scope_of(gpu_id, reports), as_of)
        if own:
            found[gpu_id] = own
    return found


def _scope_of(gpu_id: str, reports: Sequence[JudgedReport]) -> MarkScope:
    """Where a gpu is by its newest report, with the driver of the newest that names one."""
    driver = next((report.factors.driver for report in reports if report.factors.driver is not None), None)
    return MarkScope(gpu_id, reports[0].node, reports[0].rack, driver)


def _is_excused(slow: PlaceVerdict, verdicts: Iterable[Verdict], marks: Mapping[str, Sequence[Mark]]) -> bool:
    """Whether marks excuse the loss of most gpus of a slow node: what is left of it is single gpus."""
    marked = {gpu_id for gpu_id in slow.gpu_ids if gpu_id in marks}
    excused = [
        own
        for own in (verdicts if marked else ())
        if own.gpu_id in marked
        and own.cohort == slow.cohort
        and excuse_of(marks[own.gpu_id], own.loss, own.limits.gate) is not None
    ]
    return 2 * len(excused) > len(slow.gpu_ids)


def _states(  # everything that a state depends on
    histories: Mapping[str, Sequence[JudgedReport]],
    verdicts: Mapping[str, Sequence[Verdict]],
    drifts: Drifts,
    marks: Mapping[str, Sequence[Mark]],
    fleet: Fleet,
    gone: Iterable[Absence],
    doubted: Collection[str],
    as_of: datetime,
) -> dict[str, GpuState]:
    missing = {gpu_id: absence.node for absence in gone for gpu_id in absence.gpu_ids}
    states: dict[str, GpuState] = {}
    for gpu_id in sorted(missing.keys() - histories.keys()):
        own = covering(fleet.marks, MarkScope(gpu_id, missing[gpu_id]), as_of)
        states[gpu_id] = gpu_state(GpuCase((), (), marks=own, is_missing=True), as_of)
    for gpu_id, reports in histories.items():
        case = GpuCase(
            reports=reports,
            verdicts=[verdict for verdict in verdicts.get(gpu_id, ()) if not is_link(verdict.member.cohort.roof)],
            drifts=drifts.get(gpu_id, {}),
            marks=marks.get(gpu_id, ()),
            is_missing=gpu_id in missing,
            beside_peers=gpu_id in doubted,
            schedule=fleet.schedule,
        )
        states[gpu_id] = gpu_state(case, as_of)
    return states
