"""How long to wait before the next try."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.deliver.retrying_client import CAP_S, jittered_s, retry_after_s

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=timezone.utc)


def test_the_interval_doubles_with_each_try() -> None:
    assert [jittered_s(tries, share=1.0) for tries in (1, 2, 3)] == [1.0, 2.0, 4.0]


@given(tries=st.integers(1, 1000), share=st.floats(0, 1))
def test_a_pause_lies_between_nothing_and_the_cap(tries: int, share: float) -> None:
    assert 0 <= jittered_s(tries, share=share) <= CAP_S


def test_retry_after_in_seconds() -> None:
    assert retry_after_s(" 17 ", date=None, now=NOW) == 17.0


def test_retry_after_as_a_date_is_counted_from_the_servers_own_clock() -> None:
    server_now = NOW + timedelta(days=3)
    header = format_datetime(server_now + timedelta(seconds=40), usegmt=True)

    assert retry_after_s(header, date=format_datetime(server_now, usegmt=True), now=NOW) == 40.0


def test_retry_after_as_a_date_without_the_servers_clock_is_counted_from_ours() -> None:
    assert retry_after_s("Sun, 29 Nov 2026 12:00:30 GMT", date=None, now=NOW) == 30.0


def test_retry_after_in_the_past_asks_for_no_pause() -> None:
    assert retry_after_s("Sun, 29 Nov 2026 11:00:00 GMT", date=None, now=NOW) == 0.0


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "soon",
        "-5",
        "1.5",
        "٣",
        "Sun, 99 Nov 2026 11:00:00 GMT",
        "Sun, 29 Nov 2026 11:00:00 +99999999999999999",
        "1 jan 1 0:0:99999999999999999999",
    ],
)
def test_what_is_no_retry_after_asks_for_nothing(header: str | None) -> None:
    assert retry_after_s(header, date=None, now=NOW) is None


@given(header=st.text(max_size=40), date=st.none() | st.text(max_size=40))
def test_no_header_makes_it_stumble(header: str, date: str | None) -> None:
    pause_s = retry_after_s(header, date=date, now=NOW)

    assert pause_s is None or pause_s >= 0
