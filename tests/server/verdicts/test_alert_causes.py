from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.explanation import explanations
from fleetridge_server.engine.gpu_state import Mark, MarkKind
from fleetridge_server.engine.nodes import ExpectedNode
from fleetridge_server.verdicts.alert_causes import SILENCED, AlertCause, accused_roofs, alert_causes
from support.judged import AS_OF, DAY, PI, at_node, report, series

HEALTHY = [report for number in range(24) for report in series(f"ok-{number:02}", [800.0 + number * 0.1] * 3)]
EAST_1 = NodeName("east", "n1")


def causes(
    reports: Sequence[JudgedReport], *, inventory: Sequence[ExpectedNode] = (), marks: Sequence[Mark] = ()
) -> list[AlertCause]:
    evaluation = evaluate(Fleet(reports, inventory=inventory, marks=marks), AS_OF)
    return alert_causes(evaluation, explanations(evaluation))


def slow(gpus: int, *, first: int = 0, part: float = 0.88, runs: int = 3) -> list[JudgedReport]:
    return [own for number in range(first, first + gpus) for own in series(f"slow-{number}", [800.0 * part] * runs)]


def test_a_healthy_fleet_is_nothing_to_tell_of() -> None:
    """Nor is a fleet too small to judge."""
    assert causes(HEALTHY) == []
    assert causes(series("gpu-0", [800.0] * 3)) == []


def test_an_outlier_is_told_with_where_it_is_and_how_slow() -> None:
    """So that the first line of a message is enough."""
    (cause,) = causes([*HEALTHY, *at_node(slow(1), "n1", rack="r1")])

    assert (cause.kind, cause.state, cause.subject, cause.gpu) == ("gpu", "outlier", "slow-0", "slow-0")
    assert (cause.cluster, cause.node, cause.rack) == ("east", "n1", "r1")
    assert cause.summary.startswith(
        "gpu slow-0 on n1 is 12.1 % below its peers in pi bfloat16 burst, beyond the limit in each of its newest 3 "
        ""
        "runs, since 2026-01-03 12:00 UTC or before"
    )
    assert cause.details["roofs"] == ["pi bfloat16 burst"]
    assert (cause.details["slow_since"], cause.details["slow_since_is_bound"]) == ("2026-01-03T12:00:00Z", True)
    assert cause.details["loss"] == pytest.approx(0.12, abs=0.01)


def test_a_suspicion_wakes_nobody() -> None:
    """One slow report is shown, and waited out."""
    assert causes([*HEALTHY, *slow(1, runs=1)]) == []


def repair(**scope: Any) -> Mark:
    """Somebody repairs what is in a scope until tomorrow."""
    return Mark("known", "ticket 7", AS_OF - DAY, until=AS_OF + DAY, **scope)


def test_a_gpu_in_repair_is_a_silenced_cause() -> None:
    """With what it would be called, and until when."""
    (cause,) = causes([*HEALTHY, *at_node(slow(1), "n1")], marks=[repair(gpu_id="slow-0")])

    assert (cause.kind, cause.subject, cause.state, cause.node) == ("gpu", "slow-0", SILENCED, "n1")
    assert (cause.details["said"], cause.details["silenced_until"]) == ("outlier", "2026-01-06T13:00:00Z")
    assert cause.details["loss"] == pytest.approx(0.12, abs=0.01)
    assert cause.summary.startswith("gpu slow-0 on n1 is 12.1 % below its peers in pi bfloat16 burst")
    assert cause.summary.endswith("; known, being repaired until 2026-01-06 13:00 UTC: ticket 7")


def test_a_suspicion_in_repair_is_no_cause() -> None:
    """It would be none without the repair."""
    assert causes([*HEALTHY, *slow(1, runs=1)], marks=[repair(gpu_id="slow-0")]) == []


def test_a_node_in_repair_is_one_silenced_cause() -> None:
    """Of the same subject, so that its alert goes on."""
    (cause,) = causes([*HEALTHY, *at_node(slow(8), "n1")], marks=[repair(node=EAST_1)])

    assert (cause.kind, cause.subject, cause.state) == ("node", "east/n1", SILENCED)
    assert (cause.details["said"], cause.details["gpus"]) == ("slow_together", 8)


def test_a_rack_in_repair_is_one_silenced_cause() -> None:
    """Instead of its nodes."""
    nodes = [*at_node(slow(4), "n1", rack="r1"), *at_node(slow(4, first=4), "n2", rack="r1")]

    found = causes([*HEALTHY, *nodes], marks=[repair(rack="r1")])

    assert {(cause.kind, cause.state) for cause in found} <= {("rack", SILENCED), ("node", SILENCED)}
    assert found


def test_a_gpu_that_is_worse_than_its_node_in_repair_is_told_alone() -> None:
    """It has another fault, which nobody repairs."""
    worse = [*slow(3), *slow(1, first=3, part=0.6)]
    found = causes([*HEALTHY, *at_node(worse, "n1")], marks=[repair(node=EAST_1, loss=0.15)])

    assert {(cause.kind, cause.subject, cause.state) for cause in found} == {
        ("node", "east/n1", SILENCED),
        ("gpu", "slow-3", "outlier"),
    }


def test_of_what_is_missing_the_part_in_repair_is_told_to_nobody() -> None:
    """And where that is all, the cause is silenced."""
    inventory = [ExpectedNode(EAST_1, frozenset({"gone", "on-the-bench"}))]
    bench = repair(gpu_id="on-the-bench")

    (part,) = causes(at_node(HEALTHY, "n1"), inventory=inventory, marks=[bench])
    (whole,) = causes(at_node(HEALTHY, "n1"), inventory=inventory, marks=[bench, repair(gpu_id="gone")])

    assert (part.state, part.details["gpu_ids"]) == ("missing", ["gone"])
    assert (whole.state, whole.details["gpu_ids"], whole.details["said"]) == (
        SILENCED,
        ["gone", "on-the-bench"],
        "missing",
    )


@pytest.mark.parametrize("kind", ["accepted", "false_positive"])
def test_what_is_accepted_is_no_cause(kind: MarkKind) -> None:
    """Nobody is to be told of it, now or later."""
    assert causes([*HEALTHY, *at_node(slow(8), "n1")], marks=[replace(repair(node=EAST_1), kind=kind)]) == []


def test_a_node_that_is_slow_as_a_whole_is_told_once() -> None:
    """Not each of its gpus."""
    (cause,) = causes([*HEALTHY, *at_node(slow(8), "n1")])

    assert (cause.kind, cause.subject, cause.node, cause.gpu) == ("node", "east/n1", "n1", None)
    assert cause.details["gpus"] == 8
    assert cause.details["slow_since"] == "2026-01-03T12:00:00Z"
    assert cause.summary.endswith("since 2026-01-03 12:00 UTC or before; look for what they share")


def test_a_slow_node_is_told_with_what_its_gpus_share() -> None:
    """The cause, its readings, and what to do at the node."""
    hot = {"temperature_c": 88.0, "throttle_ms": {"sw_thermal_slowdown": 600.0}}
    cool = {"temperature_c": 65.0, "throttle_ms": {}}

    def with_readings(reports: Sequence[JudgedReport], readings: dict[str, Any]) -> list[JudgedReport]:
        return [replace(own, roofs={PI: replace(own.roofs[PI], **readings)}) for own in reports]

    (cause,) = causes([*with_readings(HEALTHY, cool), *at_node(with_readings(slow(8), hot), "n1")])

    assert cause.details["reason"] == "thermal"
    assert (
        "8 of 8 gpus held back by SW thermal slowdown, explains an unknown part of 12.1 % "
        "(temperature 88 °C, peers 65 °C; SW thermal slowdown 600 ms, peers 0 ms); check the node's fans"
    ) in cause.summary


def test_a_rack_that_is_slow_as_a_whole_is_told_instead_of_its_nodes() -> None:
    """Cooling and power are shared by more than a node."""
    nodes = [*at_node(slow(4), "n1", rack="r1"), *at_node(slow(4, first=4), "n2", rack="r1")]

    (cause,) = causes([*HEALTHY, *nodes])

    assert (cause.kind, cause.subject, cause.rack) == ("rack", "east/r1", "r1")


def test_a_gpu_that_is_slow_in_another_way_than_its_node_is_told_too() -> None:
    """What it is accused of most is not what the node shares."""
    shared = at_node([replace(own, roofs={**own.roofs}) for own in slow(8)], "n1")
    memory = [report(own.gpu_id, beta=4400.0, days_ago=0.2) for own in HEALTHY]
    beta = [report(own.gpu_id, beta=4400.0 * (0.5 if own.gpu_id == "slow-3" else 1.0), days_ago=0.2) for own in shared]
    bad = [report("slow-3", beta=2200.0, days_ago=day + 0.2) for day in (1, 2)]

    told = causes([*HEALTHY, *memory, *shared, *at_node([*beta, *bad], "n1")])

    assert {(cause.kind, cause.subject) for cause in told} == {("node", "east/n1"), ("gpu", "slow-3")}


def test_a_rate_beyond_belief_is_told() -> None:
    """Nobody should trust such a gpu's figures."""
    doubted = replace(report("gpu-x", 4000.0), roofs={PI: replace(report("gpu-x", 4000.0).roofs[PI], implausible=True)})

    (cause,) = causes([*HEALTHY, doubted])

    assert (cause.kind, cause.state) == ("gpu", "implausible")
    assert "do not trust" in cause.summary


def test_what_is_missing_is_told_once_for_each_node() -> None:
    """With the gpus' names, or that the node never reported."""
    here = at_node(series("here", [800.0] * 3), "n1")
    inventory = [
        ExpectedNode(EAST_1, frozenset({"here", "gone-1", "gone-2"})),
        ExpectedNode(NodeName("east", "n2"), gpu_count=8),
    ]

    first, second = causes([*HEALTHY, *here], inventory=inventory)

    assert (first.kind, first.subject, first.details["gpu_ids"]) == ("missing", "east/n1", ["gone-1", "gone-2"])
    assert first.summary.startswith("2 gpus of node n1 are not there")
    assert (second.subject, second.details["never_reported"], second.details["unnamed"]) == ("east/n2", True, 8)


def test_the_accused_roofs_of_a_gpu_are_listed_in_order() -> None:
    """As people call them."""
    evaluation = evaluate(Fleet([*HEALTHY, *slow(1)]), AS_OF)

    assert accused_roofs(evaluation.states["slow-0"]) == ["pi bfloat16 burst"]
    assert accused_roofs(evaluation.states["ok-00"]) == []
