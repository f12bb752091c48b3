from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.measurement_protocol import HALF_WIDTH, LOOKS
from fleetridge_agent.sweep.timing_statistics import (
    calls_that_fit,
    median_interval,
    median_rank,
    queue_lengths,
    timing_of,
    timing_of_blocks,
    two_groups,
)

_SOME_MS = st.floats(min_value=1e-3, max_value=1e6)


def test_one_wild_sample_does_not_move_the_time() -> None:
    """A first iteration 27,000 times slower than the others leaves the time at that of the others."""
    assert timing_of([2700.0] + [0.1] * 19).ms == 0.1


@given(samples=st.lists(_SOME_MS, min_size=3, max_size=50), wild=st.floats(min_value=1e6, max_value=1e12))
def test_however_wild_one_sample_is_the_time_stays_among_the_others(samples: list[float], wild: float) -> None:
    """Adding one sample of any size keeps the time within the range of the others."""
    assert min(samples) <= timing_of([*samples, wild]).ms <= max(samples)


def test_the_spread_is_the_interquartile_range_over_the_median() -> None:
    """Quartiles 2 and 4 around a median of 3 make a spread of two thirds."""
    assert timing_of([1.0, 2.0, 3.0, 4.0, 5.0]).spread == pytest.approx(2 / 3)


def test_a_single_sample_has_no_spread() -> None:
    """No spread is not a spread of zero."""
    timing = timing_of([1.5])

    assert (timing.ms, timing.spread, timing.reps) == (1.5, None, 1)


@pytest.mark.parametrize("samples", [[0.0, 0.0, 0.0], [-1.0], [float("nan")]])
def test_a_timer_that_does_not_run_is_refused(samples: list[float]) -> None:
    """A time that is not above zero never becomes an infinite rate."""
    with pytest.raises(ValueError, match="timer"):
        timing_of(samples)


def test_blocks_count_alike_however_their_samples_scatter() -> None:
    """The time of blocks is the median of their medians, so that one disturbed block of five does not matter."""
    quiet, disturbed = [1.0, 1.0, 1.0], [9.0, 9.0, 9.0]

    timing = timing_of_blocks([disturbed, quiet, quiet, [1.1, 1.1, 1.1], quiet])

    assert timing.whole.ms == 1.0
    assert timing.whole.reps == 15


def test_two_states_of_a_device_are_told_apart_and_never_averaged() -> None:
    """Six blocks at one clock and ten at another: the time is that of the ten, and both are kept."""
    timing = timing_of_blocks([[1.0, 1.0]] * 3 + [[1.1, 1.1]] * 10 + [[1.002, 1.002]] * 3)

    assert timing.groups is not None
    assert (timing.groups.low_count, timing.groups.high_count) == (6, 10)
    assert timing.groups.low < 1.01
    assert timing.whole.ms == timing.groups.high == 1.1
    assert timing.has_converged is False


def test_of_two_states_that_are_as_frequent_the_slower_counts() -> None:
    """Half of the blocks in each: their mean would be the rate of neither."""
    assert timing_of_blocks([[1.0]] * 4 + [[1.2]] * 4).whole.ms == 1.2


def test_blocks_remember_how_they_began_and_ended() -> None:
    """First and last block are kept, so that a device that slows down can be told."""
    timing = timing_of_blocks([[1.0, 1.0], [1.1, 1.1], [1.2, 1.2]])

    assert (timing.first_ms, timing.last_ms) == (1.0, 1.2)


@given(
    calls=st.integers(min_value=1, max_value=10_000),
    call_ms=_SOME_MS,
    limit_ms=st.floats(min_value=1, max_value=1000),
)
def test_queues_hold_no_more_work_than_allowed_unless_one_call_does(
    calls: int, call_ms: float, limit_ms: float
) -> None:
    """All calls are made, in queues within the limit that differ by one call at most."""
    lengths = queue_lengths(calls, call_ms=call_ms, limit_ms=limit_ms)

    assert sum(lengths) == calls
    assert all(length == 1 or length * call_ms <= limit_ms for length in lengths)
    assert max(lengths) - min(lengths) <= 1


@given(call_ms=_SOME_MS, budget_ms=_SOME_MS)
def test_as_many_calls_are_made_as_fit_within_bounds(call_ms: float, budget_ms: float) -> None:
    """Neither fewer than make a median nor more than were asked for, and in between what the time allows."""
    calls = calls_that_fit(call_ms, budget_ms=budget_ms, at_least=3, at_most=25)

    assert 3 <= calls <= 25
    assert calls == 3 or calls * call_ms <= budget_ms * (1 + 1e-9)


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
