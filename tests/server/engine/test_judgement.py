"""One gpu beside its peers, in plain numbers."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.limits import limits_of
from fleetridge_server.engine.verdict import Verdict
from support.judged import flagged, fleet, judged, series

RATES = st.floats(1.0, 1e4)
GROUPS = st.lists(RATES, min_size=1, max_size=24)


def verdict(values: list[float], place: int = 0) -> Verdict:
    """Verdict on one of a group of gpus with one report each."""
    return judged(fleet(values)).verdicts[f"gpu-{place:02d}"][0]


def test_every_number_can_be_recomputed_by_hand() -> None:
    """Median 100, deviations 1 1 2 2 3 3 3 12: MAD 2.5, scale 1.4826 · 1.129 · 2.5 = 4.185, z = -12 / 4.185."""
    found = verdict([88.0, 97.0, 98.0, 99.0, 101.0, 102.0, 103.0, 103.0])
    limits = found.limits
    assert limits.n == 8
    assert limits.median == 100.0
    assert limits.scale.source == "mad"
    assert limits.scale.value == pytest.approx(1.4826 * 1.129 * 2.5)
    assert limits.floor == 0.01
    assert limits.gate == 0.03
    assert limits.limit == 0.10
    assert found.loss == pytest.approx(0.12)
    assert found.z == pytest.approx(-12 / limits.scale.value)
    assert found.p == pytest.approx(limits.p(88.0))
    assert found.q is not None
    assert found.q >= (found.p or 0)


def test_the_limit_is_three_and_a_half_floors_among_equal_gpus() -> None:
    limits = limits_of([100.0] * 10, floor=0.01)
    assert limits.limit == pytest.approx(0.035)
    assert not limits.is_beyond(96.6)
    assert limits.is_beyond(96.4)


@pytest.mark.parametrize(("value", "floor"), [(97.0, 0.005), (96.5, 0.01)])
def test_a_loss_of_exactly_the_limit_is_not_beyond_it(value: float, floor: float) -> None:
    """By the gate of 3 % and by 3.5 scales, whatever doubles make of 1 - 97 / 100."""
    limits = limits_of([100.0] * 10, floor=floor)
    assert not limits.is_beyond(value)
    assert limits.is_beyond(value - 0.001)


def test_the_gate_holds_where_gpus_lie_closer_than_it() -> None:
    limits = limits_of([100.0] * 10, floor=0.005)
    assert limits.limit == limits.gate == 0.03


def test_a_tenth_lost_is_beyond_whatever_the_scale_says() -> None:
    limits = limits_of([100.0, 100.0, 104.0, 96.0, 100.0, 105.0, 85.0, 85.0], floor=0.01)
    assert 3.5 * limits.scale.value / limits.median > 0.10
    assert limits.is_beyond(89.0)


def test_a_wide_cohort_of_sixteen_is_judged_by_its_scale_alone() -> None:
    values = [100.0 + 6 * (place - 7.5) / 7.5 for place in range(16)]
    limits = limits_of(values, floor=0.01)
    assert limits.wide
    assert limits.limit == pytest.approx(3.5 * limits.scale.value / limits.median)
    assert not limits_of(values[:15], floor=0.01).wide


@given(GROUPS, st.randoms())
def test_the_order_of_gpus_does_not_matter(values: list[float], rng: Random) -> None:
    shuffled = list(values)
    rng.shuffle(shuffled)
    assert limits_of(shuffled, 0.01) == limits_of(values, 0.01)


@given(GROUPS, st.integers(-8, 8))
def test_another_unit_changes_no_verdict(values: list[float], exponent: int) -> None:
    """Powers of two, so that nothing is rounded."""
    factor = 2.0**exponent
    one, other = limits_of(values, 0.01), limits_of([value * factor for value in values], 0.01)
    assert other.limit == one.limit
    assert [other.is_beyond(value * factor) for value in values] == [one.is_beyond(value) for value in values]


@given(st.lists(st.integers(-200, 200), min_size=1, max_size=24), st.integers(0, 1000))
def test_the_estimated_spread_is_that_of_shifted_values(deviations: list[int], shift: int) -> None:
    """Without a floor, what is added to all moves the median and nothing else."""
    one = limits_of([1000.0 + deviation for deviation in deviations], 0.0)
    other = limits_of([1000.0 + shift + deviation for deviation in deviations], 0.0)
    assert other.scale.value == pytest.approx(one.scale.value)
    assert other.median == pytest.approx(one.median + shift)


@given(GROUPS, RATES, RATES)
def test_a_slower_value_is_never_judged_better(values: list[float], first: float, second: float) -> None:
    limits = limits_of(values, 0.01)
    slower, faster = sorted((first, second))
    assert limits.is_beyond(slower) >= limits.is_beyond(faster)
    assert limits.z(slower) <= limits.z(faster)


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_a_gpu_that_gets_worse_never_gets_a_better_state(first: float, second: float) -> None:
    worse, better = sorted((first, second))
    ranks = {"outlier": 2, "suspect": 1, "ok": 0}

    def rank(part: float) -> int:
        return ranks[judged([*fleet([100.0] * 9, runs=3), *series("odd", [100 * part] * 3)]).states["odd"].state]

    assert rank(worse) >= rank(better)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_than_four_gpus_accuse_nobody(n: int) -> None:
    found = judged(fleet([100.0] * (n - 1) + [10.0], runs=3))
    assert {own.state for own in found.states.values()} == {"insufficient_peers"}
    assert all(own.z is None and own.q is None for verdicts in found.verdicts.values() for own in verdicts)


@pytest.mark.parametrize(("n", "expected"), [(4, "suspect"), (5, "suspect"), (6, "outlier"), (7, "outlier")])
def test_four_and_five_gpus_make_a_suspect_at_most(n: int, expected: str) -> None:
    found = judged(fleet([100.0] * (n - 1) + [60.0], runs=3)).states
    assert found[f"gpu-{n - 1:02d}"].state == expected


@pytest.mark.parametrize("n", [4, 5, 6, 10, 40])
def test_equal_gpus_are_all_well(n: int) -> None:
    assert flagged(fleet([10.0] * n, runs=3)) == set()


def test_an_odd_gpu_among_equal_ones_is_found_though_nothing_scatters() -> None:
    assert flagged(fleet([10.0] * 9 + [7.0])) == {"gpu-09"}


@given(st.integers(4, 20), st.floats(0.01, 0.6))
def test_the_better_half_is_never_accused_for_the_worse_half(half: int, loss: float) -> None:
    values = [100.0] * half + [100.0 * (1 - loss)] * half
    found = judged(fleet(values, runs=3))
    assert not any(found.states[f"gpu-{place:02d}"].is_flagged for place in range(half))
