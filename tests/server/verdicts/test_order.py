"""The gpus of a fleet, worst first, and what they count for, as columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import datetime, timezone
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.gpu_state import ACCUSING, STATES, State
from fleetridge_server.verdicts.fleet_order import (
    NOT_ACCUSED,
    OrderedGpu,
    cohort_column,
    fleet_order,
    microseconds,
    packed_column,
    packed_order,
    severity,
    unpacked_column,
    unpacked_order,
)

FACTORS = ("driver", "torch")
LEVELS = ("unknown", "580.1", "590.1", "ü")


def gpu(row: int, state: State = "ok", loss: float | None = 0.0, *, last: State | None = None) -> OrderedGpu:
    """A gpu whose id sorts as its row does."""
    return OrderedGpu(row, f"GPU-{row:09}", state, last, loss, row * 1_000_000, ("580.1", "unknown"))


GPUS = st.lists(
    st.builds(
        lambda row, state, last, loss, at, factors: OrderedGpu(row, f"GPU-{row}", state, last, loss, at, factors),
        st.integers(1, 2**40),
        st.sampled_from(STATES),
        st.none() | st.sampled_from(STATES),
        st.none() | st.sampled_from([0.0, -0.0, 0.1]) | st.floats(-10, 1),
        st.integers(0, 2**62),
        st.tuples(*[st.sampled_from(LEVELS)] * len(FACTORS)),
    ),
    max_size=30,
    unique_by=lambda own: own.row,
)


@given(GPUS)
def test_what_is_unpacked_is_what_was_packed(gpus: list[OrderedGpu]) -> None:
    """Every column, of no gpu and of many."""
    order = fleet_order(gpus, FACTORS)
    again = unpacked_order(packed_order(order))

    assert packed_order(again) == packed_order(order)
    assert (again.rows, again.states, again.last_states) == (order.rows, order.states, order.last_states)
    assert (again.measured_at, again.factor_names, again.levels) == (order.measured_at, FACTORS, order.levels)
    assert again.factors == order.factors
    assert [again.loss_of(own.row) for own in gpus] == [own.loss for own in gpus]


@given(GPUS.flatmap(lambda gpus: st.tuples(st.just(gpus), st.permutations(gpus))))
def test_each_gpu_has_one_place_whatever_the_order_in_which_they_come(
    gpus: tuple[list[OrderedGpu], Sequence[OrderedGpu]],
) -> None:
    """With all that was said of it at that place."""
    first, second = (fleet_order(own, FACTORS) for own in gpus)

    assert packed_order(first) == packed_order(second)
    assert sorted(first.rows) == sorted(own.row for own in gpus[0])
    for own in gpus[0]:
        place = first.places[own.row]
        assert (first.state(place), first.last_state(place)) == (own.state, own.last_state)
        assert first.measured_at[place] == own.measured_at
        assert tuple(first.level(name, place) for name in FACTORS) == tuple(own.factors)


@given(GPUS)
def test_the_worst_come_first(gpus: list[OrderedGpu]) -> None:
    """Accused ones by state, then by loss; those without a value after those with one, and equals by their ids."""
    known = {own.row: own for own in gpus}
    ranks = [
        (severity(own.state, own.last_state), own.loss is None, 0 if own.loss is None else -own.loss, own.gpu_id)
        for own in (known[row] for row in fleet_order(gpus, FACTORS).rows)
    ]

    assert ranks == sorted(ranks)


def test_states_that_accuse_nobody_are_one() -> None:
    """A stale gpu that was slow is as bad as it was."""
    assert {severity(state, None) for state in STATES if state not in ACCUSING} == {NOT_ACCUSED}
    assert [severity("stale", state) for state in STATES] == [severity(state, None) for state in STATES]
    assert len({severity(state, None) for state in ACCUSING}) == len(ACCUSING)
    assert {severity("known", state) for state in STATES} == {NOT_ACCUSED}


@given(GPUS, st.sets(st.sampled_from(STATES)))
def test_gpus_are_found_by_what_is_said_of_them_or_was_when_they_were_measured(
    gpus: list[OrderedGpu], wanted: set[State]
) -> None:
    """In their order; what is known is found by that alone."""
    order = fleet_order(gpus, FACTORS)
    found = order.in_states(wanted)

    assert found == sorted(found)
    assert {order.rows[place] for place in found} == {
        own.row for own in gpus if own.state in wanted or (own.last_state in wanted and own.state != "known")
    }


@given(GPUS, st.sampled_from([*LEVELS, "570", "\0"]))
def test_gpus_are_found_by_the_level_of_a_factor(gpus: list[OrderedGpu], level: str) -> None:
    """One that nobody has finds nobody."""
    order = fleet_order(gpus, FACTORS)

    assert {order.rows[place] for place in order.with_level("torch", level)} == {
        own.row for own in gpus if own.factors[1] == level
    }


def test_of_a_gpu_that_is_not_in_the_order_there_is_no_loss() -> None:
    """Nor of one without a value."""
    order = fleet_order([gpu(1, loss=0.2), gpu(2, loss=None)])

    assert [order.loss_of(row) for row in (1, 2, 3)] == [0.2, None, None]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (datetime(1970, 1, 1, tzinfo=timezone.utc), 0),
        (datetime(2026, 11, 24, 12, 0, 0, 1, tzinfo=timezone.utc), 1_795_521_600_000_001),
    ],
)
def test_times_are_kept_to_the_microsecond(at: datetime, expected: int) -> None:
    """Whoever asks for what was measured since then gets it."""
    assert microseconds(at) == expected


MEMBERS = st.lists(
    st.tuples(st.integers(1, 12), st.floats(1e-3, 1e6), st.integers(0, 255), st.booleans()),
    unique_by=lambda own: own[0],
)


@given(MEMBERS)
def test_a_cohort_has_the_values_of_its_gpus_at_their_places(members: list[tuple[int, float, int, bool]]) -> None:
    """Packed and unpacked; of gpus that are not in the order none, of those that are not in the cohort no number."""
    order = fleet_order([gpu(row, loss=row / 100) for row in range(1, 10)])
    column = unpacked_column(packed_column(cohort_column(order, members)))
    known = {row: own for row, *own in members}

    assert isinstance(column.values, array)
    for place, row in enumerate(order.rows):
        if row in known:
            assert [column.values[place], column.groups[place], bool(column.counted[place])] == known[row]
        else:
            assert isnan(column.values[place])
