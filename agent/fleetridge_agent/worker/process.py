"""A worker as its parent sees it: a process that is given an order, listened to, and ended when its time is up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Literal, cast

from fleetridge.own_program import own_program
from fleetridge_agent.errors import SweepError
from fleetridge_agent.worker.dialogue import Dialogue
from fleetridge_agent.worker.messages import Go, line_of
from fleetridge_agent.worker.order import Order, one_gpu_environ, order_json

PROGRAM = own_program("fleetridge_agent.worker")

# From the signal that asks to the one that insists. A worker lets go within a tenth of a second, frees the memory and
# hands in its report within a second; only one call that takes longer than all of that needs more.
GRACE_S = 5.0

# After SIGKILL a process is gone at once, unless a driver that hangs holds on to it in the kernel. Nothing ends such a
# process, so it is left behind and the other gpus go on.
_GONE_S = 10.0

Why = Literal["timed_out", "preempted"]


class Worker:
    """
    One worker.

    Attributes:
        order: what it is to do.
        dialogue: what is said to it, and what it says.
        why: why it was ended from here, None where it was not.
        exit_code: as `subprocess` has it (minus the signal), None while it runs.
    """

    def __init__(self, order: Order, process: subprocess.Popen[bytes], *, limit_s: float) -> None:
        self.order = order
        self.dialogue = Dialogue(*cast("tuple[IO[bytes], ...]", (process.stdin, process.stdout, process.stderr)))
        self.dialogue.send(order_json(order) + b"\n")
        self.why: Why | None = None
        self.exit_code: int | None = None
        self._process = process
        self._limit_s = limit_s
        self._limit_at_s = time.monotonic() + limit_s
        self._has_word = not order.is_together
        self._kill_at_s: float | None = None
        self._lost_at_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or cannot be ended."""
        is_lost = self._lost_at_s is not None and time.monotonic() >= self._lost_at_s
        return self.exit_code is not None or is_lost

    def go(self, gpus_at_once: int) -> None:
        """Give the word to a worker that is ready; its time begins anew."""
        self._has_word = True
        self._limit_at_s = time.monotonic() + self._limit_s
        self.dialogue.send(line_of(Go(gpus_at_once=gpus_at_once)))

    def keep_time(self) -> None:
        """Find out whether it has ended; ask for the end, or insist on it, when it is time to."""
        if self.exit_code is None and self._has_ended():
            # Before its number is given to somebody else: nothing that it started may outlive it.
            self._signal(signal.SIGKILL)
            self.exit_code = self._process.wait()
        now = time.monotonic()
        # Whoever waits for the others has not spent that time.
        is_waiting = self.dialogue.said.is_ready and not self._has_word
        if now >= self._limit_at_s and not is_waiting:
            self.end("timed_out")
        if self._kill_at_s is not None and now >= self._kill_at_s:
            self._kill()

    def end(self, why: Why) -> None:
        """Ask for the end, unless that was done before; after a grace the worker is killed."""
        if self.why is None and self.exit_code is None:
            self.why = why
            self._kill_at_s = time.monotonic() + GRACE_S
            self._signal(signal.SIGTERM)

    def close(self) -> None:
        """Leave nothing behind: if it still runs it is killed, and the pipes are closed."""
        if self.exit_code is None:
            self._signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.exit_code = self._process.wait(0 if self.is_over else _GONE_S)
        self.dialogue.close()

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _kill(self) -> None:
        if self._lost_at_s is None and self.exit_code is None:
            self._lost_at_s = time.monotonic() + _GONE_S
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker and all that it started, which share a group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


@contextmanager
def started(
    order: Order, *, limit_s: float, program: Sequence[str] = PROGRAM, environ: Mapping[str, str]
) -> Iterator[Worker]:
    """
    Start a worker; after the block it is gone.

    Args:
        order: what it is to do.
        limit_s: time after which it is ended.
        program: what to start.
        environ: variables of this process, of which those that choose gpus are replaced.

    Raises:
        SweepError: no process can be started.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 # our own program
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=one_gpu_environ(order.target, environ),
            # A group of its own: Ctrl-C at a terminal reaches us alone, and all that it starts can be ended with it.
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise SweepError(f"no process can be started to measure it ({error.strerror}); see to this node") from error
    worker = Worker(order, process, limit_s=limit_s)
    try:
        yield worker
    finally:
        worker.close()
