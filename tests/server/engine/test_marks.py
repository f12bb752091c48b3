"""Decisions of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, JudgedReport, NodeName
from fleetridge_server.engine.gpu_state import GpuState, Mark, MarkKind
from fleetridge_server.engine.nodes import ExpectedNode, NodeRoster
from support.judged import AS_OF, DAY, MONDAY, at_node, fleet, report, series, with_factors

NODE = NodeName("east", "n1")
ACCEPTED = Mark("accepted", "capped at 500 W on purpose", AS_OF - DAY, gpu_id="odd", loss=0.10)


def evaluated(*marks: Mark, values: Sequence[float] = (90.0, 90.0, 90.0)) -> Evaluation:
    """A slow gpu on node n1 in rack r1 among nine sound ones, under marks."""
    odd = with_factors(at_node(series("odd", values), NODE.name, rack="r1"), Factors(driver="580"))
    return evaluate(Fleet([*fleet([100.0] * 9), *odd], marks=marks), AS_OF)


def test_an_accepted_deviation_is_known_and_says_by_what() -> None:
    found = evaluated(ACCEPTED)
    assert (found.states["odd"].state, found.states["odd"].last_state) == ("known", "outlier")
    assert found.states["odd"].excused_by == (ACCEPTED,)
    assert found.verdicts["odd"][0].is_accused


@pytest.mark.parametrize(
    "mark",
    [
        replace(ACCEPTED, gpu_id=None, node=NODE),
        replace(ACCEPTED, gpu_id=None, rack="r1"),
        replace(ACCEPTED, gpu_id=None, cluster="east"),
        replace(ACCEPTED, gpu_id=None, driver="580"),
        replace(ACCEPTED, kind="false_positive"),
        replace(ACCEPTED, loss=None),
        replace(ACCEPTED, until=AS_OF + DAY),
        replace(ACCEPTED, kind="known", until=AS_OF + DAY),
    ],
)
def test_a_mark_that_covers_the_gpu_excuses_it(mark: Mark) -> None:
    assert evaluated(mark).states["odd"].state == "known"


@pytest.mark.parametrize(
    "mark",
    [
        replace(ACCEPTED, gpu_id="other"),
        replace(ACCEPTED, rack="r2"),
        replace(ACCEPTED, gpu_id=None),
        replace(ACCEPTED, gpu_id=None, driver="590"),
        replace(ACCEPTED, driver="590"),
        replace(ACCEPTED, until=AS_OF),
        replace(ACCEPTED, made_at=AS_OF + DAY),
    ],
)
def test_a_mark_of_another_place_or_time_excuses_nothing(mark: Mark) -> None:
    assert evaluated(mark).states["odd"].state == "outlier"


def test_a_gpu_that_became_clearly_worse_than_it_was_marked_is_accused_again() -> None:
    assert evaluated(ACCEPTED, values=[88.5] * 3).states["odd"].state == "known"
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
    assert [found.states[f"s{place}"].state for place in range(3)] == ["known"] * 3


def test_who_is_accused_with_its_node_stays_so_where_its_neighbours_are_accepted() -> None:
    """By its own runs nobody would be: they scatter by 1 %, and the node loses 4 %."""
    noise = (1.01, 0.99, 1.005, 0.995, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0)
    reports = [
        own
        for place in range(32)
        for own in at_node(
            series(f"g{place:02}", [(96.0 if place < 4 else 100.0) * n for n in noise]), f"n{place // 4}"
        )
    ]
    accepted = [Mark("accepted", "an older board", AS_OF - DAY, gpu_id=f"g{place:02}") for place in range(3)]
    found = evaluate(Fleet(reports, marks=accepted), AS_OF)
    assert found.nodes == ()
    assert [found.states[f"g{place:02}"].state for place in range(4)] == ["known", "known", "known", "outlier"]
    assert found.verdicts["g03"][0].finding.with_group == "node"


def test_of_two_marks_the_one_that_excuses_counts() -> None:
    small, large = replace(ACCEPTED, loss=0.02), replace(ACCEPTED, made_at=AS_OF - 2 * DAY)
    assert evaluated(small, large).states["odd"].excused_by == (large,)
    assert evaluated(small, replace(large, until=AS_OF)).states["odd"].state == "outlier"


REPAIR = Mark("known", "ticket 7", AS_OF - DAY, until=AS_OF + DAY, gpu_id="odd")


def test_a_repair_says_until_when_and_what_the_runs_say() -> None:
    found = evaluated(REPAIR).states["odd"]
    assert (found.state, found.last_state, found.repaired_by) == ("known", "outlier", AS_OF + DAY)
    assert found.is_in_repair
    assert not found.is_flagged


def test_of_two_repairs_the_later_end_counts() -> None:
    """One of two roofs is what a mark may be about; the gpu is back when both are done."""
    rest = replace(REPAIR, until=AS_OF + 3 * DAY, loss=0.5)
    half = replace(REPAIR, loss=0.12)
    found = evaluate(Fleet(slow_in_two_roofs(), marks=[half, rest]), AS_OF).states["odd"]
    assert (found.state, found.repaired_by) == ("known", AS_OF + 3 * DAY)


def slow_in_two_roofs() -> list[JudgedReport]:
    """Ten gpus of which "odd" is 10 % slow in one roof and 40 % in the other."""
    sound = [(own, 4000.0) for own in fleet([100.0] * 9, runs=3)]
    slow = [(own, 2400.0) for own in series("odd", [90.0] * 3)]
    return [replace(own, roofs={**own.roofs, **report("x", beta=beta).roofs}) for own, beta in (*sound, *slow)]


def test_a_repair_changes_nothing_of_a_gpu_that_is_well_again() -> None:
    found = evaluated(REPAIR, values=(100.0, 100.0, 100.0)).states["odd"]
    assert (found.state, found.last_state, found.excused_by) == ("ok", None, ())


def silent(*marks: Mark, value: float = 90.0, days_ago: int = 6) -> GpuState:
    """State of a gpu that was last measured some days ago."""
    odd = [report("odd", value, days_ago=days_ago + more) for more in range(3)]
    return evaluate(Fleet([*fleet([100.0] * 9), *at_node(odd, "n1")], marks=marks), AS_OF).states["odd"]


@pytest.mark.parametrize(("value", "said"), [(90.0, "outlier"), (100.0, "stale")])
def test_what_is_being_repaired_is_not_missed(value: float, said: str) -> None:
    """A card on the bench is measured by nobody."""
    found = silent(REPAIR, value=value)
    assert (found.state, found.last_state, found.excused_by) == ("known", said, (REPAIR,))


def test_a_card_that_nobody_ever_saw_may_be_in_repair() -> None:
    """The inventory alone knows it."""
    found = evaluate(Fleet(fleet([100.0] * 9), marks=[REPAIR], inventory=INVENTORY), AS_OF)
    assert (found.states["odd"].state, found.states["odd"].last_state) == ("known", "missing")
    assert found.states["never-seen"].state == "missing"


@pytest.mark.parametrize("kind", ["accepted", "false_positive"])
def test_what_is_accepted_is_missed_all_the_same(kind: MarkKind) -> None:
    """And is known by its runs, never an outlier."""
    found = silent(replace(ACCEPTED, kind=kind))
    assert (found.state, found.last_state, found.is_flagged) == ("stale", "known", False)


def test_a_gpu_that_is_busy_is_not_being_repaired() -> None:
    """A mark on its node may be about another one."""
    busy = [replace(own, contended=True) for own in at_node(series("odd", [30.0] * 3), "n1")]
    found = evaluate(Fleet([*fleet([100.0] * 9), *busy], marks=[replace(REPAIR, gpu_id=None, node=NODE)]), AS_OF)
    assert found.states["odd"].state == "contended"


SCOPES: list[dict[str, Any]] = [
    {"gpu_id": "g0"},
    {"gpu_id": "g5"},
    {"node": NODE},
    {"rack": "r1"},
    {"cluster": "east"},
    {"driver": "580"},
]


@st.composite
def marks(draw: st.DrawFn) -> Mark:
    """A decision about some gpus of a small fleet, which holds."""
    kind = draw(st.sampled_from([kind for kind in get_args(MarkKind) if kind != "retired"]))
    loss = draw(st.none() | st.floats(0.01, 0.6))
    return Mark(kind, "reason", MONDAY - DAY, until=AS_OF + DAY, loss=loss, **draw(st.sampled_from(SCOPES)))


@given(
    st.lists(st.sampled_from([100.0, 99.5, 97.0, 92.0, 85.0, 60.0]), min_size=4, max_size=24),
    st.lists(marks(), max_size=4),
    st.integers(1, 5),
    st.integers(0, 5),
)
def test_no_decision_makes_a_slow_gpu_ok(values: list[float], decided: list[Mark], runs: int, days_ago: int) -> None:
    """Whoever is accused without marks is not ok with any; nor is anybody whose verdict accuses it."""
    reports = [
        replace(own, ordered_at=own.ordered_at - days_ago * DAY, factors=Factors(driver="580" if place % 3 else "590"))
        for place, value in enumerate(values)
        for own in at_node(series(f"g{place}", [value] * runs), f"n{place // 4}", rack=f"r{place // 8}")
    ]
    bare, found = (evaluate(Fleet(reports, marks=own), AS_OF) for own in ((), decided))
    accused = {gpu for gpu, own in found.verdicts.items() if any(verdict.is_accused for verdict in own)}
    ok = {gpu for gpu, own in found.states.items() if own.state == "ok"}
    assert not ok & accused
    assert not ok & {gpu for gpu, own in bare.states.items() if own.is_flagged}
    assert ok <= {gpu for gpu, own in bare.states.items() if own.state == "ok"}
