from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.intake.examine import ordering

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
utc_times = st.datetimes(timezones=st.just(timezone.utc))


def test_a_report_is_placed_where_its_measurement_ended() -> None:
    """With a right clock, the ordering time is the measured one."""
    ended = NOON - timedelta(hours=3)

    place = ordering(ended, sent_at=NOON, received_at=NOON)

    assert place.ordered_at == ended
    assert not place.clock_ahead


@pytest.mark.parametrize("error", [timedelta(hours=2), timedelta(hours=-2), timedelta(days=-20000)])
def test_a_clock_that_says_when_it_sent_is_put_right(error: timedelta) -> None:
    """What the clock is wrong by now, it was wrong by when it measured."""
    ended = NOON - timedelta(minutes=10)

    place = ordering(ended + error, sent_at=NOON + error, received_at=NOON)

    assert place.ordered_at == ended


@pytest.mark.parametrize(
    "ahead", [timedelta(minutes=30), timedelta(days=3), datetime(2106, 2, 7, tzinfo=timezone.utc) - NOON]
)
def test_nothing_that_arrived_was_measured_in_the_future(ahead: timedelta) -> None:
    """A time ahead of the arrival counts as the arrival, and the clock is flagged."""
    place = ordering(NOON + ahead, sent_at=None, received_at=NOON)

    assert place.ordered_at == NOON
    assert place.clock_ahead


def test_some_minutes_of_drift_are_nothing_to_speak_of() -> None:
    """Two minutes ahead is no wrong clock."""
    place = ordering(NOON + timedelta(minutes=2), sent_at=None, received_at=NOON)

    assert place.ordered_at == NOON
    assert not place.clock_ahead


def test_a_measurement_without_a_time_has_no_place() -> None:
    """An import that never said when is not put anywhere."""
    assert ordering(None, sent_at=NOON, received_at=NOON).ordered_at is None


@given(measured_to=utc_times, sent_at=st.none() | utc_times, received_at=utc_times)
def test_any_three_times_give_a_place_no_later_than_the_arrival(
    measured_to: datetime, sent_at: datetime | None, received_at: datetime
) -> None:
    """No combination of clocks, however wrong, leaves the years that a date can have."""
    place = ordering(measured_to, sent_at=sent_at, received_at=received_at)

    assert place.ordered_at is not None
    assert place.ordered_at <= received_at
