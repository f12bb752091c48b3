"""When rounds are due."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.schedule.due import (
    MAX_TRIES,
    Cadence,
    Timestamp,
    cadence_of,
    due_file_of,
    first_due,
    next_due,
    seconds_until,
)

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
NOW = Timestamp(1.8e9, 5e6, "boot-1")
# Sums of seconds since 1970 are exact to less than this.
EXACT_S = 1e-5

cadences = st.builds(
    lambda every_s, share, jitter_s: Cadence(every_s, share * jitter_s),
    st.floats(60, 30 * DAY_S),
    st.floats(0, 1),
    st.floats(0, DAY_S),
)
moments = st.builds(Timestamp, st.floats(0, 4e9), st.floats(0, 1e8), st.sampled_from(["boot-1", "boot-2", None]))


def test_a_node_has_the_same_place_in_the_jitter_every_time() -> None:
    assert cadence_of("n1", every_s=DAY_S, jitter_s=2 * HOUR_S) == cadence_of("n1", every_s=DAY_S, jitter_s=2 * HOUR_S)


def test_a_fleet_is_spread_evenly_over_the_jitter() -> None:
    offsets = [cadence_of(f"node-{number}", every_s=DAY_S, jitter_s=2 * HOUR_S).offset_s for number in range(1200)]
    in_each_of_12_parts = [sum(600 * part <= offset < 600 * (part + 1) for offset in offsets) for part in range(12)]

    assert sum(in_each_of_12_parts) == 1200
    assert max(in_each_of_12_parts) < 2 * 1200 / 12


@pytest.mark.parametrize("name", ["", "n\udcff", "\N{GREEK SMALL LETTER BETA}"])
def test_every_name_has_a_place(name: str) -> None:
    assert 0 <= cadence_of(name, every_s=DAY_S, jitter_s=2 * HOUR_S).offset_s < 2 * HOUR_S


def test_a_first_start_measures_once_the_nodes_offset_has_passed() -> None:
    assert first_due(None, NOW, Cadence(DAY_S, 1234.0)) == NOW.after(1234.0)


@given(cadence=cadences, left_share=st.floats(0.001, 1))
def test_a_restart_alone_changes_nothing(cadence: Cadence, left_share: float) -> None:
    kept = NOW.after(left_share * cadence.every_s)

    assert seconds_until(first_due(kept, NOW, cadence), kept) == pytest.approx(0, abs=EXACT_S)


def test_a_fleet_that_comes_back_from_a_power_cut_spreads_again() -> None:
    overdue = NOW.after(-3 * DAY_S)
    dues = {first_due(overdue, NOW, cadence_of(f"n{n}", every_s=DAY_S, jitter_s=2 * HOUR_S)) for n in range(100)}

    assert len(dues) == 100
    assert all(0 <= seconds_until(due, NOW) < 2 * HOUR_S for due in dues)


@given(kept=moments, now=moments, cadence=cadences)
def test_whatever_the_clocks_say_the_first_round_is_neither_past_nor_further_off_than_rounds_are(
    kept: Timestamp, now: Timestamp, cadence: Cadence
) -> None:
    left_s = seconds_until(first_due(kept, now, cadence), now)

    assert -EXACT_S <= left_s <= max(1.5 * cadence.every_s, cadence.offset_s) + EXACT_S


def test_a_clock_that_was_days_ahead_before_the_boot_does_not_keep_a_node_waiting_for_days() -> None:
    kept = Timestamp(NOW.wall_s + 40 * DAY_S, 100.0, "boot-0")

    assert first_due(kept, NOW, Cadence(DAY_S, 60.0)) == NOW.after(60)


def test_rounds_keep_their_distance_whatever_the_time_that_each_takes() -> None:
    """The moment that counts is when a round was due, not when it began."""
    due = NOW
    for late_s in (0.0, 60.0, 3600.0):
        due = next_due(due, due.after(late_s), Cadence(DAY_S, 0.0))

    assert seconds_until(due, NOW) == pytest.approx(3 * DAY_S, abs=EXACT_S)


@given(late_s=st.floats(0, 300 * DAY_S), cadence=cadences)
def test_after_a_long_sleep_the_next_round_is_in_step_with_the_old_ones_and_never_on_the_heels_of_this_one(
    late_s: float, cadence: Cadence
) -> None:
    now = NOW.after(late_s)
    following = next_due(NOW, now, cadence)
    intervals = seconds_until(following, NOW) / cadence.every_s

    assert intervals == pytest.approx(round(intervals), abs=1e-3)
    assert 0.5 * cadence.every_s - 1e-3 <= seconds_until(following, now) <= 1.5 * cadence.every_s + 1e-3


@given(cadence=cadences)
def test_what_is_planned_after_a_round_is_what_a_restart_finds(cadence: Cadence) -> None:
    following = next_due(NOW, NOW.after(0.9 * cadence.every_s), cadence)

    assert seconds_until(first_due(following, NOW.after(cadence.every_s), cadence), following) == pytest.approx(
        0, abs=EXACT_S
    )


@given(cadence=cadences)
def test_tries_of_one_round_are_a_minute_to_an_hour_apart(cadence: Cadence) -> None:
    assert min(60, 0.5 * cadence.every_s) <= cadence.retry_s <= HOUR_S


def test_the_tries_of_a_daily_round_end_within_a_third_of_the_day() -> None:
    assert (MAX_TRIES - 1) * Cadence(DAY_S, 0.0).retry_s <= DAY_S / 3


DUE = Timestamp(1.8e9, 5e6, "boot-1")


def test_what_was_kept_is_found_by_the_next_daemon(tmp_path: Path) -> None:
    due_file_of(tmp_path, "n1").keep(DUE)

    assert due_file_of(tmp_path, "n1").due() == DUE


def test_nodes_that_share_a_home_directory_have_ledgers_of_their_own(tmp_path: Path) -> None:
    due_file_of(tmp_path, "n1").keep(DUE)

    assert due_file_of(tmp_path, "n2").due() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"wall_s":"soon"}', b"\xff\x00", b'{"wall_s":1}'])
def test_a_broken_ledger_is_as_good_as_none(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    due_file = due_file_of(tmp_path, "n1")
    due_file.keep(DUE)
    due_file.path.write_bytes(content)

    assert due_file.due() is None
    assert "going on as at a first start" in caplog.text


def test_a_disk_that_cannot_be_written_ends_no_daemon(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rounds").write_text("")
    due_file = due_file_of(tmp_path, "n1")
    due_file.keep(DUE)

    assert due_file.due() is None
    assert "measures earlier than due" in caplog.text
