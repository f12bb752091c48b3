"""A daemon's days, by a clock of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from fleetridge_agent.errors import ExitCode
from fleetridge_agent.schedule.attempt import Attempt, AttemptResult, Unmeasured
from fleetridge_agent.schedule.daemon_loop import Loop, Tasks
from fleetridge_agent.schedule.due import MAX_TRIES, Cadence, Timestamp, due_file_of, seconds_until
from fleetridge_agent.stop import Stop

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
START = Timestamp(1.8e9, 5e6, "boot-1")
IDLE = AttemptResult(measured=2)
SWEEP_S = 90.0


def busy(*gpus: str, reason: str = "busy", measured: int = 0) -> AttemptResult:
    return AttemptResult(measured, tuple(Unmeasured(gpu, reason) for gpu in gpus))


@dataclass(slots=True)
class Day:
    """
    A node on which a daemon lives through some hours in no time.

    Attributes:
        answers: of the tries, in their order; then everything is idle.
        ends_after_s: when the daemon is told to end.
        jumps: what becomes of the clock on the wall, in s by hours since the start.
    """

    state_dir: Path
    answers: list[AttemptResult | None] = field(default_factory=list)
    every_s: float = DAY_S
    offset_s: float = 0.0
    ends_after_s: float = 2.5 * DAY_S
    spooled: int = 0
    server_is_there: Callable[[float], bool] = lambda _: True
    jumps: dict[int, float] = field(default_factory=dict)
    now: Timestamp = START
    naps_s: list[float] = field(default_factory=list)
    tries: list[tuple[float, Attempt]] = field(default_factory=list)
    flushes_s: list[float] = field(default_factory=list)

    def live(self) -> ExitCode:
        """Start a daemon, and let it live until it ends."""
        stop = _Clockwork(self)
        tasks = Tasks(measure=self._measure(stop), flush=self._flush, waiting=lambda: self.spooled)
        cadence = Cadence(self.every_s, self.offset_s)
        due_file = due_file_of(self.state_dir, "n1")
        return Loop(cadence, due_file, tasks, stop, now=lambda: self.now, share=lambda: 0.5).run()

    @property
    def elapsed_s(self) -> float:
        """Since the start, by a clock that nobody sets."""
        return self.now.uptime_s - START.uptime_s

    @property
    def tried_at_h(self) -> list[float]:
        """When something was measured or tried to be, in hours since the start."""
        return [round(at_s / HOUR_S, 2) for at_s, _ in self.tries]

    def pass_by(self, seconds: float, stop: Stop) -> None:
        """Let time pass, and whatever happens in it."""
        hour = int(self.elapsed_s // HOUR_S)
        self.now = self.now.after(seconds)
        for jump_h in range(hour + 1, int(self.elapsed_s // HOUR_S) + 1):
            self.now = Timestamp(self.now.wall_s + self.jumps.get(jump_h, 0.0), self.now.uptime_s, self.now.boot)
        if self.elapsed_s >= self.ends_after_s:
            stop.ask("SIGTERM")

    def _measure(self, stop: Stop) -> Callable[[Attempt, float], AttemptResult | None]:
        def measure(order: Attempt, _: float) -> AttemptResult | None:
            self.tries.append((self.elapsed_s, order))
            self.pass_by(SWEEP_S, stop)
            return self.answers.pop(0) if self.answers else IDLE

        return measure

    def _flush(self) -> None:
        self.flushes_s.append(self.elapsed_s)
        if self.server_is_there(self.elapsed_s):
            self.spooled = 0


class _Clockwork(Stop):
    """Passes the time that somebody waits."""

    def __init__(self, day: Day) -> None:
        super().__init__()
        self._day = day

    def wait(self, seconds: float) -> bool:
        """No longer than asked for, and no time at all in ours."""
        assert seconds > 0
        self._day.naps_s.append(seconds)
        self._day.pass_by(seconds, self)
        return self.is_asked


def test_a_node_is_measured_once_its_offset_has_passed_and_then_every_day_at_that_time(tmp_path: Path) -> None:
    day = Day(tmp_path, offset_s=2 * HOUR_S)

    assert day.live() is ExitCode.DONE
    assert day.tried_at_h == [2, 26, 50]


def test_a_restart_measures_nothing_before_it_is_due(tmp_path: Path) -> None:
    first = Day(tmp_path, ends_after_s=10 * HOUR_S)
    first.live()
    second = Day(tmp_path, offset_s=HOUR_S, now=first.now)
    second.live()

    assert first.tried_at_h == [0]
    assert second.tried_at_h == [24, 48]


def test_restarts_during_the_first_wait_do_not_put_the_first_round_off(tmp_path: Path) -> None:
    now = START
    for ends_after_s in (0.8 * HOUR_S, 1.6 * HOUR_S, 2.4 * HOUR_S):
        day = Day(tmp_path, offset_s=2 * HOUR_S, now=now, ends_after_s=ends_after_s)
        day.live()
        now = day.now

    assert [at_s for at_s, _ in day.tries] == [2 * HOUR_S]


@pytest.mark.parametrize("jump_s", [-40 * DAY_S, -HOUR_S, HOUR_S, 40 * DAY_S])
def test_a_clock_that_is_set_moves_no_round(tmp_path: Path, jump_s: float) -> None:
    day = Day(tmp_path, jumps={5: jump_s, 30: -2 * jump_s})
    day.live()

    assert day.tried_at_h == [0, 24, 48]


def test_a_busy_gpu_is_tried_again_alone_within_hours(tmp_path: Path) -> None:
    day = Day(tmp_path, [busy("GPU-b", measured=1), busy("GPU-b"), AttemptResult(measured=1)], ends_after_s=10 * HOUR_S)
    day.live()

    assert [order.gpus for _, order in day.tries] == [None, ("GPU-b",), ("GPU-b",)]
    assert [at_s for at_s, _ in day.tries] == [0, HOUR_S + SWEEP_S, 2 * (HOUR_S + SWEEP_S)]


def test_a_gpu_that_stays_busy_is_left_for_the_next_round_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    day = Day(tmp_path, [busy("GPU-b")] * MAX_TRIES, ends_after_s=1.5 * DAY_S)
    day.live()

    assert len(day.tries) == MAX_TRIES + 1
    assert day.tries[-1] == (DAY_S, Attempt())
    assert f"not measured in {MAX_TRIES} tries: GPU-b (busy); the next round tries again" in caplog.text


def test_only_the_first_and_the_last_try_report_a_gpu_that_is_busy(tmp_path: Path) -> None:
    day = Day(tmp_path, [busy("GPU-b")] * MAX_TRIES, ends_after_s=DAY_S / 2)
    day.live()

    assert [order.withholds for _, order in day.tries] == [False, *[True] * (MAX_TRIES - 2), False]


def test_tries_of_a_round_end_before_the_next_round(tmp_path: Path) -> None:
    day = Day(tmp_path, [busy("GPU-b")] * 100, every_s=4 * MINUTE_S, ends_after_s=8 * MINUTE_S - 1)
    day.live()

    assert [at_s for at_s, order in day.tries if order.gpus is None] == [0, 4 * MINUTE_S]


def test_another_agent_on_the_node_is_waited_for_and_then_all_gpus_are_measured(tmp_path: Path) -> None:
    refused = AttemptResult(0, (Unmeasured(None, "already_running"),))
    day = Day(tmp_path, [refused, IDLE], ends_after_s=DAY_S / 2)
    day.live()

    assert [order.gpus for _, order in day.tries] == [None, None]


def test_a_gpu_that_fails_for_good_is_not_tried_again_before_the_next_round(tmp_path: Path) -> None:
    day = Day(tmp_path, [busy("GPU-b", reason="crashed")], ends_after_s=1.5 * DAY_S)
    day.live()

    assert day.tried_at_h == [0, 24]


def test_a_round_that_breaks_ends_no_daemon(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    day = Day(tmp_path, [None], ends_after_s=1.5 * DAY_S)

    assert day.live() is ExitCode.DONE
    assert day.tried_at_h == [0, 24]
    assert "this round broke" in caplog.text


@pytest.mark.parametrize("reason", ["nvml_unknown_error", "driver_library_mismatch"])
def test_a_container_that_has_lost_its_gpus_ends_so_that_it_is_started_anew(tmp_path: Path, reason: str) -> None:
    """And measures soon after that, as it was due."""
    day = Day(tmp_path, [AttemptResult(0, (Unmeasured(None, reason),))])
    code = day.live()
    anew = Day(tmp_path, now=day.now, offset_s=HOUR_S, ends_after_s=DAY_S / 2)
    anew.live()

    assert code is ExitCode.NO_DEVICE
    assert day.elapsed_s == SWEEP_S
    assert [at_s for at_s, _ in anew.tries] == [SWEEP_S + HOUR_S]


def test_a_round_that_a_signal_cuts_short_is_made_up_for_after_the_restart(tmp_path: Path) -> None:
    cut_short = AttemptResult(1, (Unmeasured("GPU-b", "preempted"),), is_cut_short=True)
    day = Day(tmp_path, [cut_short], ends_after_s=SWEEP_S / 2)
    code = day.live()
    anew = Day(tmp_path, now=day.now, offset_s=HOUR_S, ends_after_s=DAY_S / 2)
    anew.live()

    assert code is ExitCode.DONE
    assert len(day.tries) == 1
    assert [at_s for at_s, _ in anew.tries] == [SWEEP_S + HOUR_S]


def test_a_round_that_takes_its_daemon_down_is_not_begun_again_at_once(tmp_path: Path) -> None:
    """Or a node on which measuring runs out of memory would do nothing else."""

    class PowerCutError(Exception):
        pass

    def power_cut(_: Attempt, __: float) -> AttemptResult | None:
        raise PowerCutError

    tasks = Tasks(measure=power_cut, flush=lambda: None, waiting=lambda: 0)
    loop = Loop(Cadence(DAY_S, 0.0), due_file_of(tmp_path, "n1"), tasks, Stop(), now=lambda: START)
    with pytest.raises(PowerCutError):
        loop.run()
    kept = due_file_of(tmp_path, "n1").due()

    assert kept is not None
    assert seconds_until(kept, START) == DAY_S


def test_what_waits_in_the_spool_is_delivered_between_rounds(tmp_path: Path) -> None:
    day = Day(tmp_path, spooled=3, ends_after_s=DAY_S / 2)
    day.live()

    assert day.spooled == 0
    assert len(day.flushes_s) == 1
    assert day.flushes_s[0] < 5 * MINUTE_S


def test_a_server_that_is_away_is_asked_ever_more_seldom_and_at_least_every_hour(tmp_path: Path) -> None:
    day = Day(tmp_path, spooled=3, ends_after_s=DAY_S / 2, server_is_there=lambda at_s: at_s > 8 * HOUR_S)
    day.live()
    pauses_s = [later - sooner for sooner, later in pairwise(day.flushes_s)]

    assert day.spooled == 0
    assert pauses_s == sorted(pauses_s)
    assert pauses_s[-1] <= HOUR_S
    assert len(day.flushes_s) < 25


def test_an_empty_spool_is_delivered_nowhere(tmp_path: Path) -> None:
    day = Day(tmp_path)
    day.live()

    assert not day.flushes_s


def test_no_nap_is_longer_than_a_minute_so_that_time_asleep_is_noticed(tmp_path: Path) -> None:
    """The clock that times a nap stands still while the host sleeps."""
    day = Day(tmp_path)
    day.live()

    assert max(day.naps_s) <= MINUTE_S


def test_a_daemon_that_is_told_to_end_before_it_begins_measures_nothing(tmp_path: Path) -> None:
    day = Day(tmp_path, ends_after_s=0.5, offset_s=HOUR_S)

    assert day.live() is ExitCode.DONE
    assert not day.tries
