"""Decisions of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fleetridge_server.verdict.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.marks import Mark
from fleetridge_server.verdict.nodes import Expected, Roster
from support.judged import AS_OF, DAY, at_node, fleet, series

NODE = NodeName("east", "n1")
ACCEPTED = Mark("accepted", "capped at 500 W on purpose", AS_OF - DAY, gpu_id="odd", loss=0.10)


def evaluated(*marks: Mark, values: Sequence[float] = (90.0, 90.0, 90.0)) -> Evaluation:
    """A slow gpu on node n1 in rack r1 among nine sound ones, under marks."""
    odd = at_node(series("odd", values), NODE.name, rack="r1")
    return evaluate(Fleet([*fleet([100.0] * 9), *odd], marks=marks), AS_OF)


def test_an_accepted_deviation_is_ok_and_says_by_what() -> None:
    found = evaluated(ACCEPTED)
    assert found.states["odd"].state == "ok"
    assert found.states["odd"].excused_by == (ACCEPTED,)
    assert found.verdicts["odd"][0].is_accused


@pytest.mark.parametrize(
    "mark",
    [
        replace(ACCEPTED, gpu_id=None, node=NODE),
        replace(ACCEPTED, gpu_id=None, rack="r1"),
        replace(ACCEPTED, gpu_id=None, cluster="east"),
        replace(ACCEPTED, kind="false_positive"),
        replace(ACCEPTED, loss=None),
        replace(ACCEPTED, until=AS_OF + DAY),
    ],
)
def test_a_mark_that_covers_the_gpu_excuses_it(mark: Mark) -> None:
    assert evaluated(mark).states["odd"].state == "ok"


@pytest.mark.parametrize(
    "mark",
    [
        replace(ACCEPTED, gpu_id="other"),
        replace(ACCEPTED, rack="r2"),
        replace(ACCEPTED, gpu_id=None),
        replace(ACCEPTED, until=AS_OF),
        replace(ACCEPTED, made_at=AS_OF + DAY),
    ],
)
def test_a_mark_of_another_place_or_time_excuses_nothing(mark: Mark) -> None:
    assert evaluated(mark).states["odd"].state == "outlier"


def test_a_gpu_that_became_clearly_worse_than_it_was_marked_is_accused_again() -> None:
    assert evaluated(ACCEPTED, values=[88.5] * 3).states["odd"].state == "ok"
    assert evaluated(ACCEPTED, values=[80.0] * 3).states["odd"].state == "outlier"


def test_a_retired_gpu_is_nobodys_peer_and_never_missing() -> None:
    retired = Mark("retired", "returned", AS_OF - DAY, gpu_id="odd")
    found = evaluated(retired)
    assert "odd" not in found.states
    assert found.verdicts["gpu-00"][0].yardstick.n == 9
    roster = Roster(NODE, AS_OF, frozenset(), complete=True)
    again = evaluate(
        Fleet(
            at_node(series("odd", [90.0]), "n1"),
            rosters=[roster],
            marks=[retired],
            inventory=[Expected(NODE, frozenset({"odd"}))],
        ),
        AS_OF,
    )
    assert again.states == {}
    assert again.absences == ()
