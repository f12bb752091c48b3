from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.protocol import HALF_WIDTH, LOOKS
from fleetridge_agent.sweep.timing import median_interval, median_rank, two_groups


@pytest.mark.parametrize(("blocks", "rank"), [(1, None), (6, None), (7, 1), (8, 1), (16, 3), (32, 9)])
def test_ranks_are_those_of_the_binomial_distribution(blocks: int, rank: int | None) -> None:
    """
    98.3 % at each look.

    For 8 blocks 2·P(Bin(8, ½) < 1) = 2/256 = 0.8 % and 2·P(< 2) = 7 %; for 16 0.4 % and 2.1 %; for 32 0.7 % and 2.0 %.
    """
    assert median_rank(blocks) == rank


def test_the_interval_of_eight_blocks_is_their_range() -> None:
    """The smallest and the largest, in whatever order they came."""
    interval = median_interval([3.0, 1.0, 8.0, 2.0, 7.0, 4.0, 6.0, 5.0])

    assert interval is not None
    assert (interval.low, interval.high) == (1.0, 8.0)


def test_a_stray_block_of_sixteen_does_not_widen_the_interval() -> None:
    """Two on each side may be as wild as they like."""
    interval = median_interval([1.0] * 13 + [0.1, 2700.0, 2700.0])

    assert interval is not None
    assert (interval.low, interval.high) == (1.0, 1.0)


def test_too_few_blocks_have_no_interval() -> None:
    """None rather than one that promises too much."""
    assert median_interval([1.0, 1.0, 1.0]) is None


def test_a_half_width_of_a_quarter_per_cent_is_narrow() -> None:
    """And anything wider is not."""
    narrow, wide = (median_interval([1.0 - half, *[1.0] * 6, 1.0 + half]) for half in (0.0024, 0.0026))

    assert narrow is not None
    assert wide is not None
    assert narrow.is_narrow(1.0)
    assert not wide.is_narrow(1.0)


def _covers(draw: random.Random, scatter: float, skew: float) -> bool:
    """Whether the interval at which a measurement stops holds the true median, which is 1."""
    values: list[float] = []
    for look in LOOKS:
        while len(values) < look:
            noise = draw.gauss(0.0, scatter)
            values.append(1.0 + (noise * skew if noise > 0 else noise))
        interval = median_interval(values)
        if interval is not None and interval.is_narrow(statistics.median(values)):
            break
    return interval is not None and interval.low <= 1.0 <= interval.high


@pytest.mark.parametrize("scatter", [0.0005, 0.0015, 0.0025, 0.004, 0.01])
@pytest.mark.parametrize("skew", [1.0, 4.0])
def test_the_interval_covers_the_median_although_the_measurement_stops_when_it_is_narrow(
    scatter: float, skew: float
) -> None:
    """In 95 of 100 sweeps and more, whatever the scatter and however lopsided it is."""
    draw = random.Random(7)  # noqa: S311 # a simulation
    sweeps = 2000

    covered = sum(_covers(draw, scatter, skew) for _ in range(sweeps))

    assert covered / sweeps >= 0.95


@given(values=st.lists(st.floats(min_value=0.99, max_value=1.01), min_size=8, max_size=32))
def test_the_interval_holds_the_median_of_its_own_blocks(values: list[float]) -> None:
    """Whatever they are."""
    interval = median_interval(values)

    assert interval is not None
    assert interval.low <= statistics.median(values) <= interval.high


@given(values=st.lists(st.floats(min_value=1.0, max_value=1.0 + HALF_WIDTH), min_size=8, max_size=32))
def test_blocks_that_scatter_little_are_one_group(values: list[float]) -> None:
    """No two states where there is only noise."""
    assert two_groups(values) is None


def test_one_stray_block_is_no_state_of_the_device() -> None:
    """It takes two to make a group."""
    assert two_groups([1.0] * 15 + [2700.0]) is None


def test_a_steady_drift_is_no_pair_of_states() -> None:
    """Blocks that slow down step by step lie evenly."""
    assert two_groups([1.0 + 0.02 * step for step in range(16)]) is None
