"""Who has which fault."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone

import pytest

from fleetridge_server.simulate.faults import order_of
from fleetridge_server.simulate.plan import PRODUCTS, Ask, Plan, PlanError, plan_of

UNTIL = datetime(2026, 11, 20, tzinfo=timezone.utc)


def ask(gpus: int = 64, days: int = 8, seed: int = 1) -> Ask:
    return Ask(PRODUCTS["H200"], gpus, days, seed, 0.005, UNTIL)


def planned(*faults: str, **changes: int) -> Plan:
    return plan_of(ask(**changes), [order_of(fault) for fault in faults])


def test_as_many_gpus_as_asked_have_a_fault_and_each_one_only() -> None:
    plan = planned("thermal:3", "slow_memory:2", "missing")
    assert Counter(order.name for order in plan.faults.values()) == {"thermal": 3, "slow_memory": 2, "missing": 1}


def test_a_fault_of_a_node_takes_all_its_gpus_and_leaves_no_other_to_it() -> None:
    plan = planned("bad_node", "thermal:56")
    bad = {position for position, order in plan.faults.items() if order.name == "bad_node"}
    node = min(bad) // 8
    assert bad == set(plan.ask.positions(node))
    assert len(plan.faults) == 64


def test_half_of_the_nodes_get_the_new_driver_beside_any_other_fault() -> None:
    plan = planned("thermal:60", "driver_regression")
    assert len(plan.upgraded) == 4
    truths = Counter(order.name for position in range(64) if (order := plan.truth(position)))
    assert truths["thermal"] == 60


def test_a_missing_gpu_is_there_at_first_and_gone_at_the_end() -> None:
    plan = planned("missing")
    [position] = plan.faults
    assert [plan.is_present(position, day) for day in range(8)] == [True] * 6 + [False] * 2


def test_the_same_seed_shares_out_alike_and_another_one_does_not() -> None:
    assert planned("thermal:5").faults == planned("thermal:5").faults
    assert planned("thermal:5").faults.keys() != planned("thermal:5", seed=2).faults.keys()


def test_two_fleets_share_no_name() -> None:
    assert ask().name != ask(seed=2).name
    assert ask().name != Ask(PRODUCTS["B200"], 8, 8, 1, 0.005, UNTIL).name


def test_the_last_node_may_have_fewer_gpus() -> None:
    assert [len(ask(gpus=11).positions(node)) for node in range(ask(gpus=11).nodes)] == [8, 3]


@pytest.mark.parametrize(
    ("faults", "changes", "remedy"),
    [
        (("thermal:9",), {"gpus": 8}, "--gpus"),
        (("bad_node:2",), {"gpus": 8}, "--gpus"),
        (("driver_regression:9",), {}, "--gpus"),
        (("driver_regression", "driver_regression"), {}, "one"),
        (("missing",), {"days": 1}, "--days"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_a_remedy(
    faults: tuple[str, ...], changes: dict[str, int], remedy: str
) -> None:
    with pytest.raises(PlanError, match=remedy):
        planned(*faults, **changes)
