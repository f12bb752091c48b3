"""Faults as they are asked for on a command line."""

from __future__ import annotations

from typing import get_args

import pytest

from fleetridge_server.simulate.faults import FAULTS, FaultError, FaultName, Order, order_of


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("thermal", Order("thermal", None, 0.08)),
        ("thermal:3", Order("thermal", 3, 0.08)),
        ("slow-memory:1:0.1", Order("slow_memory", 1, 0.1)),
        ("power_cap::5%", Order("power_cap", None, 0.05)),
    ],
)
def test_a_fault_is_a_name_perhaps_with_a_count_and_a_loss(text: str, order: Order) -> None:
    assert order_of(text) == order


@pytest.mark.parametrize(
    "text", ["", "dance", "thermal:0", "thermal:x", "thermal:1:2", "thermal:1:0", "thermal:1:nan", "thermal:1:0.1:2"]
)
def test_what_is_no_fault_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(FaultError, match="thermal"):
        order_of(text)


def test_every_fault_that_the_engine_is_scored_with_can_be_asked_for() -> None:
    assert set(get_args(FaultName)) <= set(FAULTS)


def test_a_fault_costs_nothing_before_it_sets_in_and_all_of_its_loss_at_the_end() -> None:
    for name in FAULTS:
        order = order_of(name)
        losses = [order.loss_on(day, 20) for day in range(20)]
        assert losses[: order.first_day(20)] == [0.0] * order.first_day(20)
        assert losses[-1] == pytest.approx(order.loss)
        assert losses == sorted(losses)


def test_a_drift_creeps() -> None:
    order = order_of("drift:1:0.1")
    losses = [order.loss_on(day, 20) for day in range(order.first_day(20), 20)]
    assert len(set(losses)) == len(losses)
    assert losses[0] < 0.01


def test_only_a_loss_that_every_rule_must_see_is_labelled_so() -> None:
    assert order_of("thermal:1:0.08").label == "slow_must_flag"
    assert order_of("thermal:1:0.02").label == "grey"
    assert order_of("contention").label == "grey"
    assert order_of("driver_regression").label == "ok_must_not_flag"
