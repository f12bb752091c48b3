"""What a daemon and the process of a round say to each other."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fleetridge_agent.schedule import attempt
from fleetridge_agent.schedule.attempt import (
    Attempt,
    AttemptResult,
    Unmeasured,
    attempt_of,
    attempt_text,
    result_of,
    result_text,
    run_to_end,
)
from fleetridge_agent.stop import Stop


@pytest.mark.parametrize("order", [Attempt(), Attempt(("GPU-a", "MIG-b"), withholds=True)])
def test_an_order_arrives_as_it_was_given(order: Attempt) -> None:
    assert attempt_of(attempt_text(order)) == order


def test_an_answer_arrives_as_it_was_given_on_one_line() -> None:
    answer = AttemptResult(2, (Unmeasured("GPU-a", "busy"), Unmeasured(None, "cuda_not_ready")), is_cut_short=True)

    assert result_of(result_text(answer).encode()) == answer
    assert result_text(answer).count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"Segmentation fault\n", b"[]", b'{"measured":"many"}'])
def test_a_process_that_broke_has_not_answered(content: bytes) -> None:
    assert result_of(content) is None


@pytest.mark.parametrize("reason", ["busy", "already_running", "preempted", "cuda_not_ready"])
def test_what_passes_within_hours_is_worth_another_try(reason: str) -> None:
    assert AttemptResult(0, (Unmeasured("GPU-a", reason),)).retryable


@pytest.mark.parametrize("reason", ["crashed", "no_driver", "mig_without_slice", "timed_out", "torch_missing"])
def test_what_needs_a_person_waits_for_the_next_round(reason: str) -> None:
    answer = AttemptResult(0, (Unmeasured("GPU-a", reason),))

    assert not answer.retryable
    assert answer.lost_gpus_reason is None


def test_one_card_of_several_that_is_lost_is_no_reason_to_start_anew() -> None:
    """A daemon that ended for it would be started again and again, and find the others idle each time."""
    lost = Unmeasured("GPU-b", "nvml_unknown_error")

    assert AttemptResult(7, (lost,)).lost_gpus_reason is None
    assert AttemptResult(0, (Unmeasured("GPU-a", "busy"), lost)).lost_gpus_reason is None
    assert AttemptResult(0, (lost,)).lost_gpus_reason == "nvml_unknown_error"


LONG_S = 600.0


def python(program: str) -> Sequence[str]:
    return (sys.executable, "-c", program)


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """As there is nothing to be saved."""
    asked = ((signal.SIGTERM, 0.5), (signal.SIGTERM, 0.1), (signal.SIGKILL, 30.0))
    monkeypatch.setattr(attempt, "_PATIENCE_S", asked)


def test_what_a_command_writes_is_its_answer_however_much_that_is() -> None:
    """More than a pipe would hold without anybody who reads."""
    assert run_to_end(python("print('x' * 200_000, end='')"), Stop(), limit_s=LONG_S) == b"x" * 200_000


def test_a_command_that_fails_has_answered_what_it_wrote() -> None:
    assert run_to_end(python("import sys; print('half', end=''); sys.exit(3)"), Stop(), limit_s=LONG_S) == b"half"


def test_whoever_is_told_to_end_asks_the_command_to(tmp_path: Path) -> None:
    stop, ready = Stop(), tmp_path / "ready"
    program = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('asked', end=''), sys.exit(0)))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(600)\n"
    )
    asker = threading.Thread(target=ask_when, args=(ready, stop))
    asker.start()

    assert run_to_end(python(program), stop, limit_s=LONG_S) == b"asked"
    asker.join()


def ask_when(ready: Path, stop: Stop) -> None:
    while not ready.exists():
        time.sleep(0.01)
    stop.ask("SIGTERM")


@pytest.mark.usefixtures("short_patience")
def test_a_command_that_will_not_hear_is_killed(tmp_path: Path) -> None:
    stop, ready = Stop(), tmp_path / "ready"
    program = (
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', end='', flush=True)\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(600)\n"
    )
    asker = threading.Thread(target=ask_when, args=(ready, stop))
    asker.start()

    assert run_to_end(python(program), stop, limit_s=LONG_S) == b"deaf"
    asker.join()


def test_a_command_that_takes_too_long_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    assert run_to_end(python("import time; time.sleep(600)"), Stop(), limit_s=1.0) == b""
    assert "took longer than 1 s and is ended" in caplog.text


def test_a_node_that_cannot_start_a_process_ends_nobody(caplog: pytest.LogCaptureFixture) -> None:
    assert run_to_end(("/nonexistent/program",), Stop(), limit_s=LONG_S) == b""
    assert "no process can be started (No such file or directory)" in caplog.text
