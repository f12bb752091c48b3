"""What a synchronous job loses to its slowest gpu."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.nodes import straggler_cost

VALUES = st.lists(st.floats(1.0, 100.0), min_size=1, max_size=40)


def test_eight_gpus_wait_for_the_slow_one() -> None:
    """Seven at 100 and one at 80: 640 of 780; without it 700."""
    cost = straggler_cost([100.0] * 7 + [80.0])
    assert (cost.n, cost.slowest) == (8, 80.0)
    assert cost.loss == pytest.approx(1 - 640 / 780)
    assert cost.best is not None
    assert (cost.best.left_out, cost.best.rate) == (1, 700.0)
    assert cost.best.gain == pytest.approx(700 / 640 - 1)


def test_leaving_out_a_gpu_that_is_hardly_slow_wins_nothing() -> None:
    assert straggler_cost([100.0] * 7 + [95.0]).best is None
    assert straggler_cost([100.0]).best is None


@given(VALUES)
def test_a_job_never_gets_more_than_the_sum_of_its_gpus(values: list[float]) -> None:
    cost = straggler_cost(values)
    assert -1e-9 <= cost.loss < 1
    assert all(option.rate <= sum(values) * (1 + 1e-9) for option in cost.without)


def test_no_gpus_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        straggler_cost([])
