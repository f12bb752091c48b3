"""
The state of a gpu (missing, stale, slow, ok …), the first that holds over all its judged roofs; marks of people on it.

No data is never `ok` and never slow: what was not measured has states of its own, which keep what was said before. A
mark that excuses changes no number: the verdict stays as it is, and the gpu is `known`, never `ok`, until its runs
accuse it no longer. A gpu that becomes clearly worse than it was when it was marked is accused again, for that is
another fault. A retired gpu is out of the fleet.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import is_judged
from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.rule import FAILURES_IN_A_ROW, STALE_AFTER_AT_LEAST, TURNS_MISSED
from fleetridge_server.engine.verdict import AccusationLevel, Verdict

MarkKind = Literal["known", "false_positive", "accepted", "retired"]


@dataclass(frozen=True, slots=True)
class MarkScope:
    """Where a gpu is and its driver, as far as marks and findings care; without an id it is the node itself."""

    gpu_id: str | None
    node: NodeName | None = None
    rack: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """
    A decision of a person.

    Attributes:
        kind: `known` (bad, being repaired until its end), `false_positive` (nothing is wrong), `accepted` (wrong on
            purpose), `retired` (gone for good).
        reason: in words.
        made_at: from when on it holds.
        until: end; None for ever.
        gpu_id, node, rack, cluster, driver: scope; all that are given must fit. A mark without any covers nothing.
        loss: that was accepted, as a fraction; None covers any.
    """

    kind: MarkKind
    reason: str
    made_at: datetime
    until: datetime | None = None
    gpu_id: str | None = None
    node: NodeName | None = None
    rack: str | None = None
    cluster: str | None = None
    driver: str | None = None
    loss: float | None = None

    def covers(self, place: MarkScope, as_of: datetime) -> bool:
        """Whether it holds at a time for a gpu at a place."""
        if as_of < self.made_at or (self.until is not None and as_of >= self.until):
            return False
        cluster = None if place.node is None else place.node.cluster
        scope = (
            (self.gpu_id, place.gpu_id),
            (self.node, place.node),
            (self.rack, place.rack),
            (self.cluster, cluster),
            (self.driver, place.driver),
        )
        asked = [(wanted, found) for wanted, found in scope if wanted is not None]
        return bool(asked) and all(wanted == found for wanted, found in asked)

    def excuses(self, loss: float, gate: float) -> bool:
        """Whether a loss is the one that was marked, give or take what counts as a difference."""
        return self.kind != "retired" and (self.loss is None or loss <= self.loss + gate)


def covering(marks: Iterable[Mark], place: MarkScope, as_of: datetime) -> tuple[Mark, ...]:
    """Marks that hold for a gpu, newest first."""
    found = [mark for mark in marks if mark.covers(place, as_of)]
    return tuple(sorted(found, key=lambda mark: mark.made_at, reverse=True))


def is_retired(marks: Iterable[Mark]) -> bool:
    """Whether one of the marks takes a gpu out of the fleet."""
    return any(mark.kind == "retired" for mark in marks)


def retirement(marks: Iterable[Mark], as_of: datetime) -> Callable[[MarkScope], bool]:
    """By which to ask whether nobody misses what is, or should be, at a place."""
    retiring = [mark for mark in marks if mark.kind == "retired"]
    return lambda place: any(mark.covers(place, as_of) for mark in retiring)


def excuse_of(marks: Iterable[Mark], loss: float, gate: float) -> Mark | None:
    """The first of the marks that excuses a loss; None where none does."""
    return next((mark for mark in marks if mark.excuses(loss, gate)), None)


# In the order in which the first that holds is the gpu's.
State = Literal[
    "known", "missing", "unmeasured", "stale", "contended", "implausible", "outlier", "drifted", "suspect",
    "insufficient_peers", "ok",
]  # fmt: skip
STATES: tuple[State, ...] = get_args(State)

# Said where measurements are missing or of no use; what the runs say is kept beside them.
UNUSABLE: tuple[State, ...] = ("missing", "unmeasured", "stale", "contended", "implausible")

ACCUSING: frozenset[State] = frozenset({"outlier", "drifted", "suspect"})

# Of these a gpu may be until it is repaired; one that somebody else uses is not being repaired.
_OUT_FOR_REPAIR: frozenset[State] = frozenset({"missing", "unmeasured", "stale", "implausible"})


def what_is_said(state: State, last_state: State | None) -> State:
    """What is said of a gpu now, or was when it was last measured; what is known is not said again."""
    return state if last_state is None or state == "known" else last_state


@fast_dataclass
class GpuCase:
    """
    All that a gpu's state depends on.

    Attributes:
        reports: up to the time of the evaluation, newest first.
        verdicts: on its judged roofs; links do not count.
        drifts: by roof.
        marks: that hold for it.
        beside_peers: whether a rate is nothing that silicon of its kind can do, by what the others do.
        is_missing: a complete roster or the inventory says that it should be there, and it is not.
        schedule: how often it should be measured.
    """

    reports: Sequence[JudgedReport]
    verdicts: Sequence[Verdict]
    drifts: Mapping[RoofKey, Drift] = field(default_factory=dict)
    marks: Sequence[Mark] = ()
    is_missing: bool = False
    beside_peers: bool = False
    schedule: timedelta | None = None


@fast_dataclass
class GpuState:
    """
    State of a gpu.

    Attributes:
        state: the first that holds.
        last_state: what its runs say, where `state` is about missing or unusable measurements, or it is `known`: then
            what it would be without the marks. Else None.
        accused: verdicts that accuse it and that no mark excuses, worst first.
        drifted: roofs in which it drifted and that no mark excuses.
        excused, excused_drifts: the same where marks excuse it.
        differing: verdicts by which it lies far below the fastest of its few peers, and that no mark excuses.
        excused_by: marks without which the state would be another, a repair first.
        measured_at: time of the newest report with rates, valid or not.
        identity_conflict: another node claims the gpu in a report that would count; no such report moved a number.
    """

    state: State
    last_state: State | None = None
    accused: tuple[Verdict, ...] = ()
    drifted: tuple[RoofKey, ...] = ()
    excused: tuple[Verdict, ...] = ()
    excused_drifts: tuple[RoofKey, ...] = ()
    differing: tuple[Verdict, ...] = ()
    excused_by: tuple[Mark, ...] = ()
    identity_conflict: bool = False
    measured_at: datetime | None = None

    @property
    def is_flagged(self) -> bool:
        """Whether the gpu is accused of being slow, now or when it was last measured."""
        return what_is_said(self.state, self.last_state) in ACCUSING

    @property
    def without_marks(self) -> State:
        """What the state would be if nobody had decided anything."""
        return self.last_state if self.state == "known" and self.last_state is not None else self.state

    @property
    def differs(self) -> bool:
        """Whether it lies far below the fastest of its few peers, which somebody should look at."""
        return self.state == "insufficient_peers" and bool(self.differing)

    @property
    def is_in_repair(self) -> bool:
        """Whether somebody said that it is bad and being repaired, so that nobody need hear of it again."""
        return self.state == "known" and any(mark.kind == "known" for mark in self.excused_by)

    @property
    def repaired_by(self) -> datetime | None:
        """Until when it is being repaired; None where it is not, or nobody said."""
        repairs = [mark for mark in self.excused_by if mark.kind == "known"]
        if self.state != "known" or any(mark.until is None for mark in repairs):
            return None
        return max((mark.until for mark in repairs if mark.until is not None), default=None)


def patience(schedule: timedelta | None) -> timedelta:
    """How long a gpu may go without a measurement before it is stale."""
    return STALE_AFTER_AT_LEAST if schedule is None else max(TURNS_MISSED * schedule, STALE_AFTER_AT_LEAST)


def gpu_state(case: GpuCase, as_of: datetime) -> GpuState:
    """State of a gpu at a time."""
    said = _with_absence(_by_rates(case), case, as_of)
    return replace(
        said,
        identity_conflict=_is_claimed_twice(case, as_of),
        measured_at=next((report.ordered_at for report in case.reports if report.is_measured), None),
    )


def _with_absence(said: GpuState, case: GpuCase, as_of: datetime) -> GpuState:
    """What is said of a gpu by its rates, unless measurements are missing or of no use; a repair explains that."""
    absence = _absence(case, as_of)
    if absence is None:
        return said
    repair = tuple(mark for mark in case.marks if mark.kind == "known")
    if repair and said.state == "known":
        return said if said.is_in_repair else replace(said, excused_by=(*said.excused_by, *repair))
    if repair and said.state not in ACCUSING and absence in _OUT_FOR_REPAIR:
        return replace(said, state="known", last_state=absence, excused_by=repair)
    return replace(said, state=absence, last_state=said.state if case.verdicts else None)


def _is_claimed_twice(case: GpuCase, as_of: datetime) -> bool:
    claimed = [report.ordered_at for report in case.reports if report.conflict]
    return bool(claimed) and max(claimed) >= as_of - patience(case.schedule)


def _absence(case: GpuCase, as_of: datetime) -> State | None:
    """The state that measurements are missing or of no use; None where they are neither."""
    if case.is_missing:
        return "missing"
    measured = [report for report in case.reports if report.is_measured]
    if not measured or _keeps_failing(case.reports):
        return "unmeasured"
    since = as_of - patience(case.schedule)
    fresh = [report for report in measured if report.ordered_at >= since]
    if not fresh:
        return "stale"
    if not any(report.is_valid for report in fresh):
        return "contended" if any(report.contended for report in fresh) else "unmeasured"
    return "implausible" if case.beside_peers or _is_implausible(fresh) else None


def _keeps_failing(reports: Iterable[JudgedReport]) -> bool:
    # Skipped for a good reason (busy, preempted) says nothing of the gpu.
    tried = [report.outcome for report in reports if report.outcome != "skipped"][:FAILURES_IN_A_ROW]
    return len(tried) == FAILURES_IN_A_ROW and "measured" not in tried


def _is_implausible(fresh: Iterable[JudgedReport]) -> bool:
    """Whether a judged roof has nothing but implausible readings."""
    readings = [item for report in fresh if report.is_valid for item in report.roofs.items()]
    doubted = {roof for roof, reading in readings if reading.implausible and is_judged(roof)}
    return bool(doubted) and bool(doubted - {roof for roof, reading in readings if not reading.implausible})


def _by_rates(case: GpuCase) -> GpuState:
    accused = [verdict for verdict in case.verdicts if verdict.is_accused]
    drifts = {roof: drift for roof, drift in case.drifts.items() if drift.status == "drifted"}
    if not accused and not drifts:
        # Most gpus of a fleet.
        state = _worst(case.verdicts, (), ())
        return GpuState(state) if state == "ok" else _beside_few(case)
    excuses = {verdict.cohort: excuse_of(case.marks, verdict.loss, verdict.limits.gate) for verdict in accused}
    accused.sort(key=lambda verdict: (-verdict.finding.level, -verdict.loss, verdict.cohort.roof.dtype))
    slow = [verdict for verdict in accused if excuses[verdict.cohort] is None]
    drift_excuses = {roof: excuse_of(case.marks, -(drift.change or 0), drift.gate) for roof, drift in drifts.items()}
    drifted = tuple(roof for roof, excuse in drift_excuses.items() if excuse is None)
    # Whoever is accused and excused of all of it is known, and never ok.
    is_known = not slow and not drifted
    return GpuState(
        "known" if is_known else _worst(case.verdicts, slow, drifted),
        last_state=_worst(case.verdicts, accused, tuple(drifts)) if is_known else None,
        accused=tuple(slow),
        drifted=drifted,
        excused=tuple(verdict for verdict in accused if excuses[verdict.cohort] is not None),
        excused_drifts=tuple(roof for roof, excuse in drift_excuses.items() if excuse is not None),
        excused_by=_in_order((*excuses.values(), *drift_excuses.values())),
    )


def _beside_few(case: GpuCase) -> GpuState:
    """State of a gpu with few peers, which is never accused: one of two that is slower may be as it should be."""
    far = [(verdict, verdict.behind) for verdict in case.verdicts if verdict.is_far_behind]
    excuses = {verdict.cohort: excuse_of(case.marks, behind, verdict.limits.gate) for verdict, behind in far}
    differing = [(behind, verdict) for verdict, behind in far if excuses[verdict.cohort] is None]
    differing.sort(key=lambda found: (-found[0], found[1].cohort.roof.dtype))
    return GpuState(
        "insufficient_peers",
        differing=tuple(verdict for _, verdict in differing),
        excused_by=() if differing else _in_order(excuses.values()),
    )


def _in_order(marks: Iterable[Mark | None]) -> tuple[Mark, ...]:
    used = {mark for mark in marks if mark is not None}
    return tuple(sorted(used, key=lambda mark: (mark.kind != "known", mark.made_at, mark.reason)))


def _worst(verdicts: Sequence[Verdict], slow: Sequence[Verdict], drifted: Sequence[RoofKey]) -> State:
    if any(verdict.finding.level is AccusationLevel.OUTLIER for verdict in slow):
        return "outlier"
    if drifted:
        return "drifted"
    if slow:
        return "suspect"
    # A roof that few gpus share takes nothing from what the others say.
    return "ok" if any(verdict.limits.has_verdict for verdict in verdicts) else "insufficient_peers"
