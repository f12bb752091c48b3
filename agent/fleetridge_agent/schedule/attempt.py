"""
One try of a round: its arguments, its result, and the process that makes it, as the daemon starts and ends it.

The daemon lives for months and measures for minutes. Whatever a round needs (the driver's libraries, connections) ends
with its process, and so does whatever hangs.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from pydantic import TypeAdapter

from fleetridge_agent.stop import Stop

log = logging.getLogger(__name__)

# Somebody was there, or arrived, or something was not ready yet: an hour later it may be otherwise.
_PASSING_REASONS = frozenset({"busy", "already_running", "preempted", "cuda_not_ready"})

# Only a new container, or a new start of this program on the host, can bring the gpus back.
_LOST_REASONS = frozenset({"nvml_unknown_error", "driver_library_mismatch"})

# Between two looks whether the process has ended; a signal ends the pause at once.
_POLL_S = 0.2

# How long it may take to end after each signal. The first asks, and is answered within a second: the sweep breaks off,
# its report is kept, and no call to a slow server is waited for. Only a worker that hangs needs more, as it is given
# time before it is killed. All of it together stays within the 30 s that Kubernetes gives a pod.
_PATIENCE_S = ((signal.SIGTERM, 12.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


@dataclass(frozen=True, slots=True)
class Attempt:
    """
    One try of a round.

    Attributes:
        gpus: which ones, by UUID or CUDA number; None for those of the daemon's own options.
        withholds: whether a gpu that may be tried again gets no report this time.
    """

    gpus: tuple[str, ...] | None = None
    withholds: bool = False


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """
    Why something was not measured.

    Attributes:
        gpu: its UUID or CUDA number, None where it is about the node.
        reason: as in the report.
    """

    gpu: str | None
    reason: str

    @property
    def is_passing(self) -> bool:
        """Whether a later try may succeed."""
        return is_passing(self.reason)


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """
    What became of one try.

    Attributes:
        unmeasured: everything else that was tried.
        is_cut_short: whether it was asked to end before everything was tried.
    """

    measured: int = 0
    unmeasured: tuple[Unmeasured, ...] = ()
    is_cut_short: bool = False

    @property
    def retryable(self) -> tuple[Unmeasured, ...]:
        """What may be measured later in this round."""
        return tuple(one for one in self.unmeasured if one.is_passing)

    @property
    def lost_gpus_reason(self) -> str | None:
        """Reason for which this process cannot measure any more, None where it can."""
        reasons = [one.reason for one in self.unmeasured]
        # One card of several that its driver has lost is a fault of that card; a new process would not find it either.
        is_all = not self.measured and all(reason in _LOST_REASONS for reason in reasons)
        return reasons[0] if reasons and is_all else None


def is_passing(reason: str | None) -> bool:
    """Whether what kept a gpu from being measured may pass within hours."""
    return reason in _PASSING_REASONS


_ATTEMPT, _RESULT = TypeAdapter(Attempt), TypeAdapter(AttemptResult)


def attempt_text(attempt: Attempt) -> str:
    """An attempt as an argument of a command line."""
    return _ATTEMPT.dump_json(attempt).decode()


def attempt_of(text: str) -> Attempt:
    """The attempt in an argument; raises ValueError where there is none."""
    return _ATTEMPT.validate_json(text)


def result_text(result: AttemptResult) -> str:
    """A result as one line of JSON."""
    return _RESULT.dump_json(result).decode() + "\n"


def result_of(content: bytes) -> AttemptResult | None:
    """The result that a process wrote, None where it wrote none."""
    try:
        return _RESULT.validate_json(content)
    except ValueError:
        return None


def run_to_end(command: Sequence[str], stop: Stop, *, limit_s: float) -> bytes:
    """
    Run a command to its end; what it wrote to standard output, nothing where it cannot be started.

    Args:
        command: program and arguments.
        stop: asks it to end early, and then insists.
        limit_s: after which it is ended in the same way.
    """
    try:
        with os.fdopen(os.memfd_create("answer"), "rb") as answer:
            process = _started(command, answer)
            try:
                _wait(process, stop, limit_s)
                _end(process)
            finally:
                _kill_all(process)
            answer.seek(0)
            return answer.read()
    except OSError as error:
        log.error("no process can be started (%s); see to this node", error.strerror)  # noqa: TRY400 # says all
        return b""


def _started(command: Sequence[str], answer: IO[bytes]) -> subprocess.Popen[bytes]:
    # A session of its own, or a terminal would send it every Ctrl-C that we pass on as well.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=answer, start_new_session=True)  # noqa: S603 # ours


def _wait(process: subprocess.Popen[bytes], stop: Stop, limit_s: float) -> None:
    """Wait until the process has ended, the end is asked for, or its time is up."""
    latest = time.monotonic() + limit_s
    while process.poll() is None and not stop.wait(_POLL_S):
        if time.monotonic() > latest:
            log.error("process %d took longer than %.0f s and is ended", process.pid, limit_s)
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    """See that the process ends, asked ever more firmly."""
    for number, patience_s in _PATIENCE_S:
        if process.poll() is not None:
            return
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill what the process has left of its session, and the process itself if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S[-1][1])
