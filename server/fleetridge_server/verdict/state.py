"""
One state for each gpu: the first that holds, over all its judged roofs.

No data is never `ok` and never slow: what was not measured has states of its own, which keep what was said before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Literal

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import is_judged
from fleetridge_server.record import record
from fleetridge_server.verdict.accusation import Standing
from fleetridge_server.verdict.drift import Drift
from fleetridge_server.verdict.evidence import JudgedReport
from fleetridge_server.verdict.marks import Mark, excuse_of
from fleetridge_server.verdict.verdicts import Verdict

State = Literal[
    "missing",
    "unmeasured",
    "stale",
    "contended",
    "implausible",
    "outlier",
    "drifted",
    "suspect",
    "insufficient_peers",
    "ok",
]

# In the order in which the first that holds is the gpu's.
STATES: tuple[State, ...] = (
    "missing",
    "unmeasured",
    "stale",
    "contended",
    "implausible",
    "outlier",
    "drifted",
    "suspect",
    "insufficient_peers",
    "ok",
)

# Said where measurements are missing or of no use; what the runs say is kept beside them.
UNUSABLE: tuple[State, ...] = ("missing", "unmeasured", "stale", "contended", "implausible")

ACCUSING: frozenset[State] = frozenset({"outlier", "drifted", "suspect"})

# A gpu that is always busy when its turn comes is looked at some other time; three turns or three days are too long.
_TURNS_MISSED = 3
_LEAST_PATIENCE = timedelta(days=3)

# One failed attempt may be anything; two in a row leave a gpu unmeasured.
_FAILURES = 2


@record
class GpuCase:
    """
    All that a gpu's state depends on.

    Attributes:
        reports: up to the time of the evaluation, newest first.
        verdicts: on its judged roofs; links do not count.
        drifts: by roof.
        marks: that hold for it.
        is_missing: a complete roster or the inventory says that it should be there, and it is not.
        schedule: how often it should be measured.
    """

    reports: Sequence[JudgedReport]
    verdicts: Sequence[Verdict]
    drifts: Mapping[RoofKey, Drift] = field(default_factory=dict)
    marks: Sequence[Mark] = ()
    is_missing: bool = False
    schedule: timedelta | None = None


@record
class GpuState:
    """
    State of a gpu.

    Attributes:
        state: the first that holds.
        last_state: what its runs say, where `state` is about missing or unusable measurements; else None.
        accused: verdicts that accuse it and that no mark excuses, worst first.
        drifted: roofs in which it drifted and that no mark excuses.
        excused_by: marks without which the state would be another.
        measured_at: time of the newest report with rates, valid or not.
        identity_conflict: another node claims the gpu in a report that would count; no such report moved a number.
    """

    state: State
    last_state: State | None = None
    accused: tuple[Verdict, ...] = ()
    drifted: tuple[RoofKey, ...] = ()
    excused_by: tuple[Mark, ...] = ()
    identity_conflict: bool = False
    measured_at: datetime | None = None

    @property
    def is_flagged(self) -> bool:
        """Whether the gpu is accused of being slow, now or when it was last measured."""
        return (self.last_state or self.state) in ACCUSING


def patience(schedule: timedelta | None) -> timedelta:
    """How long a gpu may go without a measurement before it is stale."""
    return _LEAST_PATIENCE if schedule is None else max(_TURNS_MISSED * schedule, _LEAST_PATIENCE)


def gpu_state(case: GpuCase, as_of: datetime) -> GpuState:
    """State of a gpu at a time."""
    said = _by_rates(case)
    absence = _absence(case, as_of)
    return GpuState(
        state=said.state if absence is None else absence,
        last_state=said.state if absence is not None and case.verdicts else None,
        accused=said.accused,
        drifted=said.drifted,
        excused_by=said.excused_by,
        identity_conflict=_is_claimed_twice(case, as_of),
        measured_at=next((report.ordered_at for report in case.reports if report.is_measured), None),
    )


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
    return "implausible" if _is_implausible(fresh) else None


def _keeps_failing(reports: Iterable[JudgedReport]) -> bool:
    # Skipped for a good reason (busy, preempted) says nothing of the gpu.
    tried = [report.outcome for report in reports if report.outcome != "skipped"][:_FAILURES]
    return len(tried) == _FAILURES and "measured" not in tried


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
        return GpuState(_worst(case.verdicts, (), ()))
    excuses = {verdict.cohort: excuse_of(case.marks, verdict.loss, verdict.yardstick.gate) for verdict in accused}
    slow = sorted(
        (verdict for verdict in accused if excuses[verdict.cohort] is None),
        key=lambda verdict: (-verdict.finding.standing, -verdict.loss, verdict.cohort.roof.dtype),
    )
    drift_excuses = {roof: excuse_of(case.marks, -(drift.change or 0), drift.gate) for roof, drift in drifts.items()}
    drifted = tuple(roof for roof, excuse in drift_excuses.items() if excuse is None)
    used = {mark for mark in (*excuses.values(), *drift_excuses.values()) if mark is not None}
    return GpuState(
        _worst(case.verdicts, slow, drifted),
        accused=tuple(slow),
        drifted=drifted,
        excused_by=tuple(sorted(used, key=lambda mark: (mark.made_at, mark.reason))),
    )


def _worst(verdicts: Sequence[Verdict], slow: Sequence[Verdict], drifted: Sequence[RoofKey]) -> State:
    if any(verdict.finding.standing is Standing.OUTLIER for verdict in slow):
        return "outlier"
    if drifted:
        return "drifted"
    if slow:
        return "suspect"
    # A roof that few gpus share takes nothing from what the others say.
    return "ok" if any(verdict.yardstick.has_verdict for verdict in verdicts) else "insufficient_peers"
