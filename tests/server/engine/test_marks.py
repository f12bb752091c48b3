"""Decisions of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.gpu_state import Mark
from fleetridge_server.engine.nodes import ExpectedNode, NodeRoster
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
    assert found.verdicts["gpu-00"][0].limits.n == 9
    roster = NodeRoster(NODE, AS_OF, frozenset(), complete=True)
    again = evaluate(
        Fleet(
            at_node(series("odd", [90.0]), "n1"),
            rosters=[roster],
            marks=[retired],
            inventory=[ExpectedNode(NODE, frozenset({"odd"}))],
        ),
        AS_OF,
    )
    assert again.states == {}
    assert again.absences == ()


INVENTORY = (ExpectedNode(NODE, frozenset({"odd", "never-seen"}), 4),)


@pytest.mark.parametrize("scope", [{"node": NODE}, {"rack": "r1", "cluster": "east"}, {"cluster": "east"}])
def test_nobody_misses_what_the_inventory_expects_of_a_retired_place(scope: dict[str, Any]) -> None:
    retired = Mark("retired", "rack given back", AS_OF - DAY, **scope)
    odd = at_node(series("odd", [90.0] * 3), "n1", rack="r1")
    found = evaluate(Fleet([*fleet([100.0] * 9), *odd], marks=[retired], inventory=INVENTORY), AS_OF)
    assert found.absences == ()
    assert not {"odd", "never-seen"} & set(found.states)


def test_a_node_that_never_reported_can_be_retired() -> None:
    retired = Mark("retired", "never bought", AS_OF - DAY, node=NODE)
    assert evaluate(Fleet(fleet([100.0] * 9), marks=[retired], inventory=INVENTORY), AS_OF).absences == ()
    assert evaluate(Fleet(fleet([100.0] * 9), inventory=INVENTORY), AS_OF).absences[0].never_reported


def test_a_retired_gpu_is_counted_until_another_takes_its_place() -> None:
    retired = Mark("retired", "returned", AS_OF - DAY, gpu_id="odd")
    gpus = [own for name in ("odd", "a", "b") for own in at_node(series(name, [100.0] * 3), "n1")]

    def unnamed(*more: JudgedReport, count: int) -> list[int]:
        of = Fleet([*gpus, *more], marks=[retired], inventory=[ExpectedNode(NODE, gpu_count=count)])
        return [absence.unnamed for absence in evaluate(of, AS_OF).absences]

    assert unnamed(count=3) == []
    assert unnamed(*at_node(series("replacement", [100.0] * 3), "n1"), count=3) == []
    assert unnamed(count=4) == [1]


def slow_node_under(*marks: Mark, values: Sequence[float] = (90.0,) * 4) -> Evaluation:
    """Four gpus of node n1 with these values among twenty sound ones of other nodes, under marks."""
    sound = [own for place in range(20) for own in at_node(series(f"g{place}", [100.0] * 3), f"m{place // 4}")]
    slow = [own for place, value in enumerate(values) for own in at_node(series(f"s{place}", [value] * 3), "n1")]
    return evaluate(Fleet([*sound, *slow], marks=marks), AS_OF)


def test_a_node_whose_loss_is_accepted_is_no_longer_called_slow() -> None:
    accepted = Mark("accepted", "capped on purpose", AS_OF - DAY, node=NODE, loss=0.10)
    assert [node.place for node in slow_node_under().nodes] == [NODE]
    assert slow_node_under(accepted).nodes == ()
    assert [node.place for node in slow_node_under(replace(accepted, loss=0.02)).nodes] == [NODE]
    assert [node.place for node in slow_node_under(replace(accepted, until=AS_OF)).nodes] == [NODE]


def test_a_gpu_that_is_worse_than_its_accepted_node_is_accused_alone() -> None:
    accepted = Mark("accepted", "capped on purpose", AS_OF - DAY, node=NODE, loss=0.10)
    found = slow_node_under(accepted, values=(90.0, 90.0, 90.0, 70.0))
    assert found.nodes == ()
    assert {gpu for gpu, own in found.states.items() if own.is_flagged} == {"s3"}


def test_of_two_marks_the_one_that_excuses_counts() -> None:
    small, large = replace(ACCEPTED, loss=0.02), replace(ACCEPTED, made_at=AS_OF - 2 * DAY)
    assert evaluated(small, large).states["odd"].excused_by == (large,)
    assert evaluated(small, replace(large, until=AS_OF)).states["odd"].state == "outlier"
