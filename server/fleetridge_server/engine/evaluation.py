"""
The evaluation of one device: reports in, everything that is said of its gpus out.

The order of the reports never matters, and nothing is remembered from one evaluation to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.collapses import NodeCollapse, without_collapses
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.health import HealthFault, health_faults
from fleetridge_server.engine.nodes import (
    Absence,
    ExpectedNode,
    NodeRoster,
    absences,
)
from fleetridge_server.engine.notices import (
    Drifts,
    Notice,
    cohort_notices,
    collapse_notices,
    device_notices,
    own_drifts,
    upgrade_notices,
)
from fleetridge_server.engine.slow_places import PlaceVerdict, accused_with_places, slow_nodes, slow_racks
from fleetridge_server.engine.state import (
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
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect
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
    """

    reports: Iterable[JudgedReport]
    rosters: Sequence[NodeRoster] = ()
    inventory: Sequence[ExpectedNode] = ()
    marks: Sequence[Mark] = ()
    drifts: Drifts = field(default_factory=dict)
    upgrades: Mapping[RoofKey, Mapping[EpochChange, PairedEffect]] = field(default_factory=dict)
    published: Mapping[RoofKey, float] = field(default_factory=dict)
    schedule: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    What is said of one device at one time; verdicts of each gpu, judged roofs before links.

    Retired gpus are in no cohort and have no state; `nodes` and `racks` are slow as a whole; `health` has the gpus that
    need somebody's action whatever their rates are.
    """

    as_of: datetime
    cohorts: Mapping[Cohort, Sequence[Member]]
    verdicts: Mapping[str, Sequence[Verdict]]
    states: Mapping[str, GpuState]
    notices: tuple[Notice, ...]
    nodes: tuple[PlaceVerdict, ...]
    racks: tuple[PlaceVerdict, ...]
    absences: tuple[Absence, ...]
    health: Mapping[str, tuple[HealthFault, ...]] = field(default_factory=dict)


def evaluate(fleet: Fleet, as_of: datetime) -> Evaluation:
    """All that is said of one device's gpus at a time."""
    histories = by_gpu(fleet.reports, as_of)
    marks = _marks_by_gpu(fleet.marks, histories, as_of)
    retired = frozenset(gpu_id for gpu_id, own in marks.items() if is_retired(own))
    alive = {gpu_id: reports for gpu_id, reports in histories.items() if gpu_id not in retired}
    cohorts, collapses = _counted(members_by_cohort(alive, as_of))
    judged = device_verdicts(cohorts)
    roofs = [verdict for verdict in judged.verdicts if not is_link(verdict.member.cohort.roof)]
    drifts, drift_notices = own_drifts(fleet.drifts, judged.verdicts)
    nodes = [node for node in slow_nodes(roofs) if not _is_excused(node, roofs, marks)]
    racks = slow_racks(nodes, roofs)
    gone = absences(histories, fleet.rosters, fleet.inventory, retirement(fleet.marks, as_of))
    by_id: dict[str, list[Verdict]] = defaultdict(list)
    # Of a gpu that is in both the rack is named, which explains its node.
    for verdict in accused_with_places(judged.verdicts, [*nodes, *racks]):
        by_id[verdict.gpu_id].append(verdict)
    return Evaluation(
        as_of=as_of,
        cohorts=cohorts,
        verdicts=by_id,
        states=_states(alive, by_id, drifts, marks, gone, fleet.schedule, as_of),
        notices=(
            *(notice for cohort in judged.cohorts for notice in cohort_notices(cohort, fleet.published)),
            *device_notices(judged.cohorts),
            *collapse_notices(collapses),
            *drift_notices,
            *upgrade_notices(fleet.upgrades),
        ),
        nodes=tuple(nodes),
        racks=tuple(racks),
        absences=tuple(gone),
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


def _marks_by_gpu(
    marks: Sequence[Mark], histories: Mapping[str, Sequence[JudgedReport]], as_of: datetime
) -> dict[str, tuple[Mark, ...]]:
    if not marks:
        return {}
    found: dict[str, tuple[Mark, ...]] = {}
    for gpu_id, reports in histories.items():
        own = covering(marks, MarkScope(gpu_id, reports[0].node, reports[0].rack), as_of)
        if own:
            found[gpu_id] = own
    return found


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
    gone: Iterable[Absence],
    schedule: timedelta | None,
    as_of: datetime,
) -> dict[str, GpuState]:
    missing = {gpu_id for absence in gone for gpu_id in absence.gpu_ids}
    states = {gpu_id: GpuState("missing") for gpu_id in sorted(missing - set(histories))}
    for gpu_id, reports in histories.items():
        case = GpuCase(
            reports=reports,
            verdicts=[verdict for verdict in verdicts.get(gpu_id, ()) if not is_link(verdict.member.cohort.roof)],
            drifts=drifts.get(gpu_id, {}),
            marks=marks.get(gpu_id, ()),
            is_missing=gpu_id in missing,
            schedule=schedule,
        )
        states[gpu_id] = gpu_state(case, as_of)
    return states
