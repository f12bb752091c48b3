"""
The program of a worker process: reads a job, measures one gpu, and sends its report to the parent.

    python -m fleetridge_agent.worker.child_main

is started by `fleetridge-agent run` or `check`, which gives it the job on standard input; nothing for a person to call.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from fleetridge_agent.busy.admission import refuse_if_busy
from fleetridge_agent.errors import AgentError, ExitCode, UsageError
from fleetridge_agent.log import LOGGER, stray_output_logged
from fleetridge_agent.progress import Progress
from fleetridge_agent.stop import Stop, stopping_on_signals
from fleetridge_agent.sweep.device_sweep import Callbacks, Opener, measure_admitted
from fleetridge_agent.sweep.report import Measured, refused
from fleetridge_agent.worker.messages import (
    Finished,
    Go,
    Job,
    LogLine,
    Ready,
    StepStarted,
    UsageRejected,
    job_of,
    line_of,
)

# prctl(2), PR_SET_PDEATHSIG of linux/prctl.h.
_SET_PARENT_DEATH_SIGNAL = 1

_STDIN, _STDOUT, _STDERR = 0, 1, 2

_CHUNK_BYTES = 65536

# Between two looks whether the end was asked for, while nothing is said.
_POLL_S = 0.1


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends, however that ends; by default it is killed."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(number))


class Parent:
    """
    The process that started this one.

    Takes standard output for itself: what anything else prints there goes to standard error from now on.
    """

    def __init__(self) -> None:
        self._output_fd = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
        self._received = b""

    def read_line(self, check_stop: Callable[[], None] = lambda: None) -> bytes:
        """
        The next line that the parent says.

        Args:
            check_stop: asked again and again meanwhile; what it raises ends the waiting.

        Raises:
            EOFError: it will say no more.
        """
        while b"\n" not in self._received:
            check_stop()
            if not select.select([_STDIN], [], [], _POLL_S)[0]:
                continue
            chunk = os.read(_STDIN, _CHUNK_BYTES)
            if not chunk:
                raise EOFError
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line

    def send(self, line: bytes) -> None:
        """Say a line; one to which nobody listens any more is lost."""
        with suppress(BrokenPipeError):
            while line:
                line = line[os.write(self._output_fd, line) :]


class ParentLogHandler(logging.Handler):
    """Sends records of the log to the parent, which knows how they are to look."""

    def __init__(self, parent: Parent) -> None:
        super().__init__()
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record, a traceback included."""
        self._parent.send(line_of(LogLine(level=record.levelno, text=self.format(record))))


def _import_torch() -> None:
    # Without torch, opening the device says what is missing.
    with suppress(ImportError):
        import torch  # noqa: F401, PLC0415 # in the process that measures, and there only


def work(opener: Opener | None = None, prepare: Callable[[], None] = _import_torch) -> ExitCode:
    """
    Do the job that comes on standard input; all that is said of it goes to standard output.

    Args:
        opener: opens the device; None is what opens real ones.
        prepare: whatever takes long and touches no gpu, so that the last look at the gpu is taken after it.
    """
    die_with_parent()
    prepare()
    parent = Parent()
    job = job_of(parent.read_line())
    if os.getppid() != job.parent:
        # It died before the kernel knew that we are to die with it.
        return ExitCode.FAILED
    logger = logging.getLogger(LOGGER)
    logger.handlers, logger.propagate = [ParentLogHandler(parent)], False
    logger.setLevel(logging.INFO)
    # Until here a signal ends this process at once; from here on the gpu is ours, and is left in order.
    with stray_output_logged(), stopping_on_signals() as stop:
        try:
            measured = _measured(job, parent, stop, opener)
        except UsageError as error:
            parent.send(line_of(UsageRejected(text=str(error))))
            return error.exit_code
    parent.send(line_of(Finished(code=measured.code, report=measured.report, is_cut_short=measured.is_cut_short)))
    return measured.code


def _measured(job: Job, parent: Parent, stop: Stop, opener: Opener | None) -> Measured:
    def start() -> int | None:
        """Say that the gpu is open and wait for `Go`; the number of gpus measured at once, None where alone."""
        if not job.is_together:
            return None
        parent.send(line_of(Ready()))
        return Go.model_validate_json(parent.read_line(stop.check)).gpus_at_once

    def on_progress(progress: Progress) -> None:
        """Send a step to the parent."""
        parent.send(line_of(StepStarted(progress=progress)))

    target, assignment = job.target, job.assignment
    try:
        # Once more, as starting up took seconds in which somebody may have come.
        is_contended = job.is_contended or refuse_if_busy(target, force=assignment.options.force)
        callbacks = Callbacks(on_progress=on_progress, check_stop=stop.check, start=start)
        return measure_admitted(target, assignment, callbacks, is_contended=is_contended, opener=opener)
    except UsageError:
        raise
    except AgentError as error:
        return refused(assignment, error, target, is_together=job.is_together)


if __name__ == "__main__":
    code = work()
    sys.stderr.flush()
    # Everything is said and freed. Taking Python and torch apart in order would hold the gpu longer: on an H200 0.6 s
    # from a signal to the end, instead of 0.2 s.
    os._exit(code)
