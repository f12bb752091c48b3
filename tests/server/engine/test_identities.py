"""Gpus that two nodes claim."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.evidence import JudgedReport, NodeName, with_conflicts
from support.judged import MONDAY, at_node, fleet, judged, report

PEERS = fleet([100.0] * 8, runs=3)


def claim(node: str | None, minutes_ago: float, pi: float = 100.0) -> JudgedReport:
    """A report of the gpu "odd" from a node."""
    own = report("odd", pi, days_ago=minutes_ago / 1440)
    at = replace(own, report_id=f"{node}-{minutes_ago}", node=None if node is None else NodeName("east", node))
    return replace(at, ordered_at=MONDAY - timedelta(minutes=minutes_ago))


def in_conflict(*claims: JudgedReport) -> set[str]:
    """Reports that conflict with another, by id."""
    return {own.report_id for own in with_conflicts(claims) if own.conflict}


def test_two_nodes_within_an_hour_conflict_with_each_other() -> None:
    assert in_conflict(claim("n1", 0), claim("n2", 60)) == {"n1-0", "n2-60"}


def test_a_gpu_that_another_node_reports_later_has_moved() -> None:
    assert in_conflict(claim("n2", 0), claim("n1", 61), claim("n1", 120)) == set()


def test_reports_of_one_node_or_of_none_never_conflict() -> None:
    assert in_conflict(claim("n1", 0), claim("n1", 1), claim(None, 2)) == set()


def test_only_the_reports_near_the_other_nodes_conflict() -> None:
    claims = [claim("n1", 0), claim("n1", 50), claim("n2", 100), claim("n1", 200)]
    assert in_conflict(*claims) == {"n1-50", "n2-100"}


def test_reports_in_conflict_move_no_number_and_the_state_says_so() -> None:
    evaluation = judged([*PEERS, claim("n1", 10, 30.0), claim("n2", 20, 90.0)])
    assert evaluation.states["odd"].state == "unmeasured"
    assert evaluation.states["odd"].identity_conflict
    assert evaluation.verdicts["gpu-00"][0].limits.n == 8


def test_a_gpu_that_moved_keeps_its_history_and_no_flag() -> None:
    moved = [claim("n2", 10, 90.0), claim("n1", 24 * 60, 90.0)]
    evaluation = judged([*PEERS, *moved])
    assert evaluation.states["odd"].state == "outlier"
    assert not evaluation.states["odd"].identity_conflict


def test_a_conflict_is_forgotten_once_only_older_reports_have_it() -> None:
    old = [claim(node, 5 * 24 * 60 + minute) for minute, node in enumerate(("n1", "n2"))]
    fresh = at_node([report("odd", 100.0)], "n1")
    assert not judged([*PEERS, *old, *fresh]).states["odd"].identity_conflict


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2", None]), st.integers(0, 400)), max_size=8, unique=True))
def test_conflicts_are_those_of_every_pair_in_any_order(places: list[tuple[str | None, int]]) -> None:
    claims = sorted((claim(*place) for place in places), key=lambda own: (own.ordered_at, own.report_id))
    expected = {
        one.report_id
        for one in claims
        for other in claims
        if None not in (one.node, other.node)
        and one.node != other.node
        and abs(one.ordered_at - other.ordered_at) <= timedelta(hours=1)
    }
    assert in_conflict(*claims) == expected
    assert in_conflict(*claims[::-1]) == expected
