"""Moments by two clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.schedule.due import Timestamp, seconds_until, timestamp_now

DAY_S = 86_400.0

seconds = st.floats(-30 * DAY_S, 30 * DAY_S)


@given(wait_s=seconds, jump_s=seconds)
def test_a_clock_that_somebody_sets_changes_no_wait_within_one_boot(wait_s: float, jump_s: float) -> None:
    now = Timestamp(1e9, 5e6, "boot-1")
    after_the_jump = Timestamp(now.wall_s + jump_s, now.uptime_s, "boot-1")

    assert abs(seconds_until(now.after(wait_s), after_the_jump) - wait_s) < 1e-3


@given(wait_s=seconds, off_s=st.floats(0, 10 * DAY_S))
def test_from_one_boot_to_the_next_time_goes_on_by_the_clock_on_the_wall(wait_s: float, off_s: float) -> None:
    now = Timestamp(1e9, 5e6, "boot-1")
    after_the_boot = Timestamp(now.wall_s + off_s, 30.0, "boot-2")

    assert abs(seconds_until(now.after(wait_s), after_the_boot) - (wait_s - off_s)) < 1e-3


def test_where_the_kernel_names_no_boot_the_clock_on_the_wall_is_all_there_is() -> None:
    assert seconds_until(Timestamp(1000.0, 7.0), Timestamp(900.0, 5.0)) == 100


def test_time_goes_on_here() -> None:
    first, second = timestamp_now(), timestamp_now()

    assert second.uptime_s >= first.uptime_s
    assert first.boot == second.boot
