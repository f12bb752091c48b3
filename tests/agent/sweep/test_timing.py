from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.sweep.timing import calls_that_fit, queue_lengths, timing_of, timing_of_blocks

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
