"""The handle on a worker process: its start, its pipes, its time limit and its end. `child_main` runs in it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Literal, cast

from fleetridge.module_command import module_command
from fleetridge.quantities import MIB
from fleetridge_agent.errors import SweepError
from fleetridge_agent.gpus.targets import one_gpu_environ
from fleetridge_agent.worker.messages import (
    Finished,
    Go,
    Job,
    LogLine,
    Ready,
    StepStarted,
    UsageRejected,
    job_json,
    line_of,
    message_of,
)

# A full report of the largest sweep has some MiB; what is larger is none.
_LONGEST_LINE_BYTES = 64 * MIB

# Of what a worker wrote to stderr, enough for the end of a traceback.
_KEPT_BYTES = 16384

# One reading takes what a pipe holds (pipe(7): 64 KiB) many times over, and yet ends where somebody writes without end.
_CHUNK_BYTES = 65536
_CHUNKS = 64

# Of something that is no message, enough to see what it is.
_SHOWN_BYTES = 80

# Lines of a dump or traceback that are not its sentence (faulthandler, traceback).
_NOT_SAID = (" ", "\t", "Current thread", "Thread 0x", "Extension modules", "Traceback")

PROGRAM = module_command("fleetridge_agent.worker.child_main")

# From the signal that asks to the one that insists. A worker lets go within a tenth of a second, frees the memory and
# hands in its report within a second; only one call that takes longer than all of that needs more.
GRACE_S = 5.0

# After SIGKILL a process is gone at once, unless a driver that hangs holds on to it in the kernel. Nothing ends such a
# process, so it is left behind and the other gpus go on.
_GONE_S = 10.0

EndReason = Literal["timed_out", "preempted"]


class Worker:
    """
    One worker.

    Attributes:
        job: what it is to do.
        pipes: what is said to it, and what it says.
        end_reason: why it was ended from here, None where it was not.
        exit_code: as `subprocess` has it (minus the signal), None while it runs.
    """

    def __init__(self, job: Job, process: subprocess.Popen[bytes], *, limit_s: float) -> None:
        self.job = job
        self.pipes = Pipes(*cast("tuple[IO[bytes], ...]", (process.stdin, process.stdout, process.stderr)))
        self.pipes.send(job_json(job) + b"\n")
        self.end_reason: EndReason | None = None
        self.exit_code: int | None = None
        self._process = process
        self._limit_s = limit_s
        self._limit_at_s = time.monotonic() + limit_s
        self._is_started = not job.is_together
        self._kill_at_s: float | None = None
        self._lost_at_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or cannot be ended."""
        is_lost = self._lost_at_s is not None and time.monotonic() >= self._lost_at_s
        return self.exit_code is not None or is_lost

    def go(self, gpus_at_once: int) -> None:
        """Have a worker that is ready begin; its time limit begins anew."""
        self._is_started = True
        self._limit_at_s = time.monotonic() + self._limit_s
        self.pipes.send(line_of(Go(gpus_at_once=gpus_at_once)))

    def enforce_time_limit(self) -> None:
        """Find out whether it has ended; ask for the end, or insist on it, when it is time to."""
        if self.exit_code is None and self._has_ended():
            # Before its number is given to somebody else: nothing that it started may outlive it.
            self._signal(signal.SIGKILL)
            self.exit_code = self._process.wait()
        now = time.monotonic()
        # Whoever waits for the others has not spent that time.
        is_waiting = self.pipes.output.is_ready and not self._is_started
        if now >= self._limit_at_s and not is_waiting:
            self.end("timed_out")
        if self._kill_at_s is not None and now >= self._kill_at_s:
            self._kill()

    def end(self, reason: EndReason) -> None:
        """Ask for the end, unless that was done before; after a grace the worker is killed."""
        if self.end_reason is None and self.exit_code is None:
            self.end_reason = reason
            self._kill_at_s = time.monotonic() + GRACE_S
            self._signal(signal.SIGTERM)

    def close(self) -> None:
        """Leave nothing behind: if it still runs it is killed, and the pipes are closed."""
        if self.exit_code is None:
            self._signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.exit_code = self._process.wait(0 if self.is_over else _GONE_S)
        self.pipes.close()

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
    job: Job, *, limit_s: float, program: Sequence[str] = PROGRAM, environ: Mapping[str, str]
) -> Iterator[Worker]:
    """
    Start a worker; after the block it is gone.

    Args:
        job: what it is to do.
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
            env=one_gpu_environ(job.target, environ),
            # A group of its own: Ctrl-C at a terminal reaches us alone, and all that it starts can be ended with it.
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise SweepError(f"no process can be started to measure it ({error.strerror}); see to this node") from error
    worker = Worker(job, process, limit_s=limit_s)
    try:
        yield worker
    finally:
        worker.close()


@dataclass(slots=True)
class WorkerOutput:
    """
    What a worker has said so far that decides what becomes of it.

    Attributes:
        invalid_line: what was no message, None where there was nothing like that.
        last_stderr_line: the last sentence that it left on stderr.
    """

    is_ready: bool = False
    finished: Finished | None = None
    usage_rejected: UsageRejected | None = None
    invalid_line: str | None = None
    last_stderr_line: str = ""


class Pipes:
    """
    Sends lines to a worker, and takes its messages as they come.

    Attributes:
        output: kept up to date.
    """

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.output = WorkerOutput()
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        for stream in (stdin, stdout, stderr):
            os.set_blocking(stream.fileno(), False)
        self._unsent = b""
        self._line = b""
        self._left_on_stderr = b""

    @property
    def readers(self) -> tuple[IO[bytes], ...]:
        """Streams on which something may come."""
        return tuple(stream for stream in (self._stdout, self._stderr) if not stream.closed)

    @property
    def writers(self) -> tuple[IO[bytes], ...]:
        """Streams on which something is to be sent."""
        return (self._stdin,) if self._unsent and not self._stdin.closed else ()

    def send(self, line: bytes) -> None:
        """Send a line as soon as the worker takes it."""
        self._unsent += line

    def exchange(self) -> Iterator[StepStarted | LogLine]:
        """Send and take all that can be without waiting; the messages that are for people."""
        self._send()
        self._left_on_stderr = (self._left_on_stderr + self._read_available(self._stderr))[-_KEPT_BYTES:]
        self.output.last_stderr_line = last_stderr_line(self._left_on_stderr.decode(errors="replace"))
        *lines, self._line = (self._line + self._read_available(self._stdout)).split(b"\n")
        if len(self._line) > _LONGEST_LINE_BYTES:
            self._line = self._keep_invalid(self._line)
        for line in lines:
            yield from self._parsed(line)

    def close(self) -> None:
        """Close the pipes."""
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()

    def _send(self) -> None:
        if self.writers:
            # One that has ended reads no more; how it ended says the rest.
            with suppress(BrokenPipeError):
                self._unsent = self._unsent[self._stdin.write(self._unsent) or 0 :]

    @staticmethod
    def _read_available(stream: IO[bytes]) -> bytes:
        taken = b""
        for _ in range(0 if stream.closed else _CHUNKS):
            chunk: bytes | None = stream.read(_CHUNK_BYTES)
            if chunk == b"":
                stream.close()
            if not chunk:
                break
            taken += chunk
        return taken

    def _parsed(self, line: bytes) -> Iterator[StepStarted | LogLine]:
        try:
            message = message_of(line)
        except ValueError:
            self._keep_invalid(line)
            return
        if isinstance(message, StepStarted | LogLine):
            yield message
        elif isinstance(message, Ready):
            self.output.is_ready = True
        elif isinstance(message, UsageRejected):
            self.output.usage_rejected = message
        else:
            self.output.finished = message

    def _keep_invalid(self, line: bytes) -> bytes:
        """Keep a sample of the first thing that is no message; what is left of it to keep."""
        if self.output.invalid_line is None:
            self.output.invalid_line = line[:_SHOWN_BYTES].decode(errors="replace")
        return b""


def last_stderr_line(text: str) -> str:
    """The last sentence of what a process left on stderr, be it a traceback or a dump; empty where it left none."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith(_NOT_SAID)]
    return lines[-1] if lines else ""
