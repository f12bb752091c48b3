"""The eleven states, and which of two holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from fleetridge.report import Outcome, RoofKey
from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.gpu_state import STATES, GpuState, Mark
from fleetridge_server.engine.nodes import NodeRoster
from support.judged import AS_OF, DAY, MONDAY, PI, at_node, fleet, judged, report, series

PEERS = fleet([100.0] * 9, runs=3)
DRIFTED = Drift("drifted", 20, baseline=100.0, change=-0.04, since=5)


def state(
    reports: Sequence[JudgedReport],
    *,
    rosters: Sequence[NodeRoster] = (),
    drift: Drift | None = None,
    schedule: timedelta | None = None,
    marks: Sequence[Mark] = (),
) -> GpuState:
    """State of the gpu "odd" among nine sound peers."""
    drifts: dict[str, dict[RoofKey, Drift]] = {} if drift is None else {"odd": {PI: drift}}
    fleet_of = Fleet([*PEERS, *reports], rosters=rosters, drifts=drifts, schedule=schedule, marks=marks)
    return evaluate(fleet_of, AS_OF).states["odd"]


def unmeasured(reason: str, *, days_ago: float = 0, outcome: Outcome = "failed") -> JudgedReport:
    """A report without rates."""
    own = report("odd", days_ago=days_ago)
    return replace(own, outcome=outcome, reason=reason, report_id=f"odd-{reason}-{days_ago}")


def implausible(*, days_ago: float = 0) -> JudgedReport:
    """A report of more than the silicon can do."""
    own = report("odd", 900.0, days_ago=days_ago)
    return replace(own, roofs={roof: replace(value, implausible=True) for roof, value in own.roofs.items()})


def roster(*gpu_ids: str, complete: bool = True) -> NodeRoster:
    """What the driver of node n1 lists now."""
    return NodeRoster(NodeName("east", "n1"), AS_OF, frozenset(gpu_ids), complete)


def test_ok() -> None:
    assert state(series("odd", [100.0] * 3)) == GpuState("ok", measured_at=MONDAY)


def test_insufficient_peers() -> None:
    own = replace(report("odd", 100.0), conditions=replace(report("odd").conditions, fill="zeros"))
    assert state([own]).state == "insufficient_peers"


@pytest.mark.parametrize(
    ("values", "differing"),
    [
        ((100.0,), {}),
        ((100.0, 50.0), {"gpu-01": 0.5}),
        ((100.0, 90.0), {"gpu-01": 0.1}),
        ((100.0, 91.0), {}),
        ((50.0, 100.0, 80.0), {"gpu-00": 0.5, "gpu-02": 0.2}),
        ((100.0, 100.0, 100.0, 50.0), {}),
    ],
)
def test_of_two_or_three_the_slower_ones_differ(values: Sequence[float], differing: dict[str, float]) -> None:
    """Nobody is accused of it; of four and more the median decides."""
    found = judged(fleet(values, runs=3))
    differ = {gpu: own.differing[0].behind for gpu, own in found.states.items() if own.differs}
    assert differ == {gpu: pytest.approx(behind) for gpu, behind in differing.items()}
    assert {own.state for own in found.states.values() if own.differs} <= {"insufficient_peers"}
    assert not any(own.is_accused for gpu in differ for own in found.verdicts[gpu])


def test_old_values_of_few_differ_from_nobody() -> None:
    """Who knows how they are now."""
    old = [replace(own, ordered_at=own.ordered_at - 45 * DAY) for own in fleet([100.0, 50.0], runs=3)]
    assert not any(own.differing for own in judged(old).states.values())


def test_what_is_decided_of_a_gpu_that_differs_needs_no_look() -> None:
    """It stays one that nothing can be said of."""
    mark = Mark("accepted", "an older board", MONDAY - DAY, gpu_id="gpu-01")
    found = evaluate(Fleet(fleet([100.0, 50.0], runs=3), marks=[mark]), AS_OF).states["gpu-01"]
    assert (found.state, found.differs, found.excused_by) == ("insufficient_peers", False, (mark,))


def test_a_roof_that_few_share_takes_nothing_from_the_others() -> None:
    assert state([report("odd", 100.0, beta=4000.0)]).state == "ok"


def test_suspect_outlier_and_drifted() -> None:
    assert state([report("odd", 90.0)]).state == "suspect"
    assert state(series("odd", [90.0] * 3)).state == "outlier"
    assert state(series("odd", [100.0] * 3), drift=DRIFTED).state == "drifted"


def test_drifted_stands_between_outlier_and_suspect() -> None:
    assert state([report("odd", 90.0)], drift=DRIFTED).state == "drifted"
    assert state(series("odd", [90.0] * 3), drift=DRIFTED).state == "outlier"


def test_the_worst_roof_decides() -> None:
    betas = [replace(own, roofs={**own.roofs, **report("x", beta=4000.0).roofs}) for own in PEERS]
    slow = at_node([report("odd", 100.0, beta=3000.0)], "n1")
    assert evaluate(Fleet([*betas, *slow]), AS_OF).states["odd"].state == "outlier"


def test_implausible_is_neither_slow_nor_ok() -> None:
    assert state([implausible()]).state == "implausible"
    assert state([report("odd", 90.0, days_ago=1), implausible()]).state == "suspect"
    assert state([report("odd", 90.0, days_ago=5), implausible()]).last_state == "suspect"


def test_contended_moves_nothing() -> None:
    taken = replace(report("odd", 30.0), contended=True)
    assert state([taken]) == GpuState("contended", measured_at=MONDAY)
    assert judged([*PEERS, taken]).verdicts["gpu-00"][0].limits.n == 9
    assert state([report("odd", 100.0, days_ago=1), taken]).state == "ok"


def test_a_gpu_that_is_always_busy_keeps_what_was_said_of_it() -> None:
    taken = [replace(report("odd", 30.0, days_ago=ago), contended=True) for ago in range(4)]
    found = state([*[report("odd", 90.0, days_ago=ago) for ago in (5, 6, 7)], *taken])
    assert (found.state, found.last_state) == ("contended", "outlier")


def test_stale_keeps_the_last_state() -> None:
    found = state([report("odd", 90.0, days_ago=ago) for ago in (4, 5, 6)])
    assert (found.state, found.last_state) == ("stale", "outlier")
    assert found.is_flagged


def test_a_value_out_of_the_window_is_stale_and_moves_no_median() -> None:
    reports = [*PEERS, report("odd", 80.0, days_ago=45)]
    found = judged(reports)
    assert found.states["odd"] == replace(found.states["odd"], state="stale", last_state="suspect")
    assert found.verdicts["gpu-00"][0].limits.n == 9
    assert found.verdicts["odd"][0].q is None


def test_a_rare_schedule_lengthens_the_patience() -> None:
    reports = series("odd", [100.0])
    old = [replace(own, ordered_at=MONDAY - 5 * DAY) for own in reports]
    assert state(old).state == "stale"
    assert state(old, schedule=timedelta(days=2)).state == "ok"


def test_never_measured_is_unmeasured() -> None:
    assert state([unmeasured("nvml_unknown_error")]) == GpuState("unmeasured")


def test_one_failure_is_nothing_and_two_leave_a_gpu_unmeasured() -> None:
    good = series("odd", [100.0] * 3)
    before = [replace(own, ordered_at=own.ordered_at - 2 * DAY) for own in good]
    assert state([*before, unmeasured("crashed", days_ago=1)]).state == "ok"
    found = state([*before, unmeasured("crashed", days_ago=1), unmeasured("crashed")])
    assert (found.state, found.last_state) == ("unmeasured", "ok")


def test_skipped_because_busy_is_no_failure() -> None:
    good = [report("odd", 100.0, days_ago=2)]
    skipped = [unmeasured("busy", days_ago=ago, outcome="skipped") for ago in (0.1, 0.5, 1)]
    assert state([*good, *skipped]).state == "ok"


def test_only_conflicting_reports_leave_a_gpu_unmeasured() -> None:
    assert state([replace(report("odd", 30.0), conflict=True)]).state == "unmeasured"


def test_missing_from_a_complete_roster() -> None:
    reports = at_node(series("odd", [100.0] * 3), "n1")
    assert state(reports, rosters=[roster("other")]) == GpuState("missing", "ok", measured_at=MONDAY)
    assert state(reports, rosters=[roster("other", complete=False)]).state == "ok"
    assert state(reports, rosters=[roster("odd")]).state == "ok"


def cases() -> dict[str, GpuState]:
    """A gpu for every state; each has all that the states after its own need, as far as that can be."""
    slow_then_silent = [report("odd", 90.0, days_ago=ago) for ago in (4, 5, 6)]
    repair = Mark("known", "ticket 7", MONDAY - DAY, until=AS_OF + DAY, gpu_id="odd")
    return {
        "known": state(at_node(slow_then_silent, "n1"), rosters=[roster()], marks=[repair]),
        "missing": state(at_node(slow_then_silent, "n1"), rosters=[roster()]),
        "unmeasured": state([*slow_then_silent, unmeasured("a", days_ago=3), unmeasured("b", days_ago=2)]),
        "stale": state(slow_then_silent, drift=DRIFTED),
        "contended": state([*slow_then_silent, replace(implausible(), contended=True)]),
        "implausible": state([*slow_then_silent, implausible()], drift=DRIFTED),
        "outlier": state(series("odd", [90.0] * 3), drift=DRIFTED),
        "drifted": state([report("odd", 90.0)], drift=DRIFTED),
        "suspect": state([report("odd", 90.0)]),
        "insufficient_peers": judged([report("odd", 90.0)]).states["odd"],
        "ok": state([report("odd", 99.0)]),
    }


@pytest.mark.parametrize("name", STATES)
def test_every_state_is_reached_before_those_that_also_hold(name: str) -> None:
    assert cases()[name].state == name
