"""
One command of this program in a process of its own.

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
from typing import IO

from fleetridge_agent.stop import Stop

log = logging.getLogger(__name__)

# Between two looks whether the process has ended; a signal ends the pause at once.
_LOOK_S = 0.2

# How long it may take to end after each signal. The first asks, and is answered within a second: the sweep breaks off,
# its report is kept, and no call to a slow server is waited for. Only a worker that hangs needs more, as it is given
# time before it is killed. All of it together stays within the 30 s that Kubernetes gives a pod.
_PATIENCE_S = ((signal.SIGTERM, 12.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


def carried_out(command: Sequence[str], stop: Stop, *, limit_s: float) -> bytes:
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
    while process.poll() is None and not stop.wait(_LOOK_S):
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
