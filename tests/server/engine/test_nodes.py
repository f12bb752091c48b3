"""Nodes and racks as a whole, and what is not there."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.nodes import Absence, ExpectedNode, NodeRoster, absences
from fleetridge_server.engine.slow_places import RackName
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


def test_a_node_just_inside_the_limit_of_each_gpu_is_accused_and_its_gpus_with_it() -> None:
    reports = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)] + node("slow", [96.8, 96.9, 97.2, 96.8])
    found = judged(reports)
    assert [(slow.place.name, slow.is_accused) for slow in found.nodes] == [("slow", True)]
    assert found.states["slow-2"].state == "outlier"
    assert found.verdicts["slow-2"][0].finding.with_group == "node"


def test_a_good_gpu_of_a_slow_node_is_not_accused_with_it() -> None:
    reports = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)] + node("slow", [96.0, 96.0, 99.9, 96.0])
    found = judged(reports)
    assert found.nodes[0].gpu_ids == ("slow-0", "slow-1", "slow-3")
    assert found.states["slow-2"].state == "ok"


def test_a_node_that_was_slow_in_its_newest_run_alone_is_not_accused() -> None:
    sound = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)]
    once = at_node([own for place in range(4) for own in series(f"slow-{place}", [100.0, 100.0, 95.0])], "slow")
    assert judged([*sound, *once]).nodes == ()
    lone = at_node([report(f"slow-{place}", 95.0) for place in range(4)], "slow")
    assert [slow.is_accused for slow in judged([*sound, *lone]).nodes] == [False]


def test_of_fewer_than_five_nodes_one_is_named_only_where_each_of_its_gpus_is_accused() -> None:
    sound = [own for name in "abc" for own in node(name, [100.0] * 4)]
    assert [slow.place.name for slow in judged([*sound, *node("slow", [90.0] * 4)]).nodes] == ["slow"]
    assert judged([*sound, *node("slow", [97.2] * 4)]).nodes == ()
    assert judged([*sound, *node("slow", [90.0, 90.0, 90.0, 100.0])]).nodes == ()


@pytest.mark.parametrize("collapses", [[2], [2, 6], [0], [0, 4]])
def test_runs_in_which_a_whole_node_collapsed_alone_accuse_nobody_and_are_left_out(collapses: list[int]) -> None:
    """A job that waited for its input: every gpu of the node falls to a third in the same minute, and is well after."""
    sound = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)]
    values = [34.0 if days_ago in collapses else 101.0 for days_ago in range(9, -1, -1)]
    fallen = at_node([own for place in range(4) for own in series(f"fell-{place}", values)], "fell")
    found = judged([*sound, *fallen])
    assert {own.state for own in found.states.values()} == {"ok"}
    assert found.nodes == ()
    assert found.verdicts["fell-0"][0].member.value == 101.0
    assert [notice.kind for notice in found.notices] == ["node_collapse"] * len(collapses)


def test_a_node_that_stays_collapsed_is_accused_and_so_are_its_gpus() -> None:
    sound = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)]
    values = [101.0] * 5 + [60.0] * 2
    fallen = at_node([own for place in range(4) for own in series(f"fell-{place}", values)], "fell")
    assert {judged([*sound, *fallen]).states[f"fell-{place}"].state for place in range(4)} == {"outlier"}


def test_one_gpu_that_collapses_beside_well_ones_of_its_node_is_accused_at_once() -> None:
    sound = [own for name in "abcdefghi" for own in node(name, [100.0] * 4)]
    own = at_node([*series("fell", [100.0, 60.0]), *series("well", [100.0, 100.0])], "fell")
    assert judged([*sound, *own]).states["fell"].state == "outlier"


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
