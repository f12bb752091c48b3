"""Nodes and racks as a whole, and what is not there."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.nodes import Absence, ExpectedNode, NodeRoster, RackName, absences
from fleetridge_server.engine.values import by_gpu
from support.judged import AS_OF, DAY, MONDAY, at_node, fleet, judged, report, series

N1, N2 = NodeName("east", "n1"), NodeName("east", "n2")


def node(name: str, values: list[float], *, rack: str | None = None) -> list[JudgedReport]:
    """A node whose gpus have these values."""
    reports = [own for place, value in enumerate(values) for own in series(f"{name}-{place}", [value] * 3)]
    return at_node(reports, name, rack=rack)


def missing_of(
    reports: list[JudgedReport], *rosters: NodeRoster, inventory: tuple[ExpectedNode, ...] = ()
) -> list[Absence]:
    """What is missing an hour after MONDAY noon."""
    return absences(by_gpu(reports, AS_OF), rosters, inventory)


def roster(name: NodeName, *gpu_ids: str, complete: bool = True, hours_ago: float = 0) -> NodeRoster:
    """What a driver lists."""
    return NodeRoster(name, AS_OF - timedelta(hours=hours_ago), frozenset(gpu_ids), complete)


def test_a_node_all_of_whose_gpus_are_slow_is_named_with_its_worst_gpu_first() -> None:
    reports = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)] + node("slow", [88.0, 87.0, 88.0, 88.0])
    (found,) = judged(reports).nodes
    assert found.place == NodeName("east", "slow")
    assert found.loss == pytest.approx(0.12)
    assert found.gpu_ids == ("slow-1", "slow-0", "slow-2", "slow-3")


def test_a_node_just_inside_the_limit_of_each_gpu_is_named_all_the_same() -> None:
    reports = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)] + node("slow", [96.8, 96.9, 97.2, 96.8])
    found = judged(reports)
    assert [slow.place.name for slow in found.nodes] == ["slow"]
    assert not found.states["slow-2"].is_flagged


def test_one_slow_gpu_is_not_its_node() -> None:
    reports = [own for name in "abcd" for own in node(name, [100.0] * 4)] + node("n", [100.0, 100.0, 100.0, 80.0])
    assert judged(reports).nodes == ()


def test_half_of_all_gpus_cannot_be_called_slow_nodes() -> None:
    assert judged([*node("n1", [100.0] * 2), *node("n2", [80.0] * 3)]).nodes == ()


def test_a_rack_is_named_where_all_its_nodes_are_slow() -> None:
    sound = [own for name in "abcdefgh" for own in node(name, [100.0] * 4, rack="r1")]
    slow = [*node("s1", [88.0] * 4, rack="r2"), *node("s2", [87.0] * 4, rack="r2")]
    (rack,) = judged([*sound, *slow]).racks
    assert rack.place == RackName("east", "r2")
    assert len(rack.gpu_ids) == 8
    assert judged([*sound, *slow, *node("s3", [100.0] * 4, rack="r2")]).racks == ()


def test_a_gpu_that_the_newest_complete_roster_lacks_is_missing() -> None:
    reports = node("n1", [100.0] * 2)
    assert missing_of(reports, roster(N1, "n1-0")) == [Absence(N1, ("n1-1",))]
    assert missing_of(reports, roster(N1, "n1-0", complete=False)) == []
    assert missing_of(reports, roster(N1, "n1-0", hours_ago=40), roster(N1, "n1-0", "n1-1")) == []


def test_a_gpu_that_moved_to_another_node_is_not_missing() -> None:
    moved = [*at_node([report("g", 100.0, days_ago=2)], "n1"), *at_node([report("g", 100.0)], "n2")]
    assert missing_of(moved, roster(N1)) == []
    assert missing_of(at_node([report("g", 100.0, days_ago=2)], "n1"), roster(N1), roster(N2, "g")) == []


def test_a_roster_older_than_the_gpus_report_says_nothing_of_it() -> None:
    assert missing_of(node("n1", [100.0]), roster(N1, hours_ago=5)) == []


def test_a_node_of_the_inventory_that_never_reported_is_visible() -> None:
    inventory = (ExpectedNode(N1, gpu_count=2), ExpectedNode(N2, frozenset({"x"})))
    found = missing_of(node("n1", [100.0] * 2), inventory=inventory)
    assert found == [Absence(N2, ("x",), never_reported=True)]


def test_gpus_that_only_the_inventory_counts_are_counted() -> None:
    assert missing_of(node("n1", [100.0] * 7), inventory=(ExpectedNode(N1, gpu_count=8),)) == [Absence(N1, (), 1)]


def test_an_expected_gpu_that_nobody_saw_has_a_state() -> None:
    fleet_of = Fleet(fleet([100.0] * 4), inventory=[ExpectedNode(N2, frozenset({"x"}))])
    assert evaluate(fleet_of, AS_OF).states["x"].state == "missing"


def test_a_roster_that_is_hidden_from_does_not_replace_a_complete_one() -> None:
    full = NodeRoster(N1, MONDAY + DAY / 48, frozenset({"n1-0"}), complete=True)
    assert missing_of(node("n1", [100.0] * 2), full, roster(N1, "n1-1", complete=False)) == [Absence(N1, ("n1-1",))]
