"""How a signal reaches a program that pauses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fleetridge_agent.stop import Stop

# A timer fires at some point of many short pauses, also in the middle of their bookkeeping.
INTERRUPTED_PAUSES = """
import random, signal
from fleetridge_agent.stop import Stop

for _ in range(3000):
    stop = Stop()
    signal.signal(signal.SIGALRM, lambda *_: stop.ask("SIGALRM"))
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1e-4))
    while not stop.wait(0):
        pass
"""

PATIENCE_S = 120


def test_a_signal_in_the_middle_of_a_pause_never_leaves_the_program_waiting_for_itself() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED_PAUSES], timeout=PATIENCE_S, check=False)

    assert ended.returncode == 0


ASKED_BY_HANGUP = """
import os, signal, sys
from fleetridge_agent.stop import stopping_on_signals

signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
with stopping_on_signals() as stop:
    os.kill(os.getpid(), signal.SIGHUP)
    raise SystemExit(3 if stop.is_asked else 4)
"""


@pytest.mark.parametrize(("before", "code"), [("SIG_DFL", 3), ("SIG_IGN", 4)])
def test_a_closed_terminal_asks_for_the_end_unless_that_was_to_be_ignored(before: str, code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", ASKED_BY_HANGUP, before], timeout=PATIENCE_S, check=False)

    assert ended.returncode == code


def test_whoever_pauses_after_the_end_was_asked_for_is_told_at_once_and_every_time() -> None:
    stop = Stop()
    stop.ask("SIGTERM")

    assert [stop.wait(PATIENCE_S), stop.wait(PATIENCE_S), stop.is_asked] == [True] * 3


def test_a_pause_that_nobody_ends_says_so() -> None:
    stop = Stop()

    assert [stop.wait(0), stop.wait(-1)] == [False, False]
