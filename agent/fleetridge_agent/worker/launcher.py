"""
Measures gpus in processes of their own, one after the other or all at once.

This process keeps the locks, looks who uses a gpu, and attends to the workers; it never imports torch.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fleetridge_agent.busy.admission import admitted
from fleetridge_agent.errors import AgentError
from fleetridge_agent.gpus.targets import Target
from fleetridge_agent.progress import Progress
from fleetridge_agent.stop import Stop
from fleetridge_agent.sweep.report import Assignment, Measured, refused
from fleetridge_agent.worker.messages import Job, StepStarted
from fleetridge_agent.worker.outcome import measured_by
from fleetridge_agent.worker.process_handle import PROGRAM, Worker, started

log = logging.getLogger(__name__)

# Between two looks at clocks and signals, while nobody says anything.
_POLL_S = 0.1

# Until a worker is ready: importing torch takes seconds, a minute from a cold network drive. One that takes longer does
# not hold up the others.
_READY_S = 120.0


@dataclass(frozen=True, slots=True)
class Launcher:
    """
    Where workers are started and attended to.

    Attributes:
        limit_s: time that a gpu may take, until its worker is ended.
        on_progress: called with each step of each gpu.
        stop: whether to end what is under way.
        program: what a worker is.
    """

    limit_s: float
    on_progress: Callable[[Target, Progress], None]
    stop: Stop
    program: Sequence[str] = PROGRAM

    def measure(self, target: Target, assignment: Assignment) -> Measured:
        """
        Measure one device; whatever becomes of it is in the report, not raised.

        Raises:
            UsageError: the options cannot be carried out on this device.
        """
        log.info("measuring %s", target)
        with ExitStack() as stack:
            worker = self._worker(target, assignment, stack, is_together=False)
            if isinstance(worker, Measured):
                return worker
            (over,) = self._attended([worker])
            return measured_by(over, limit_s=self.limit_s)

    def measure_together(self, targets: Sequence[Target], assignment: Assignment) -> Iterator[Measured]:
        """
        Measure several devices at once, each report as soon as it is there.

        Raises:
            UsageError: the options cannot be carried out on one of them.
        """
        log.info("measuring %d gpus at once", len(targets))
        with ExitStack() as stack:
            found = [self._worker(target, assignment, stack, is_together=True) for target in targets]
            yield from (refusal for refusal in found if isinstance(refusal, Measured))
            for worker in self._attended([worker for worker in found if isinstance(worker, Worker)]):
                yield measured_by(worker, limit_s=self.limit_s)

    def _worker(
        self, target: Target, assignment: Assignment, stack: ExitStack, *, is_together: bool
    ) -> Worker | Measured:
        """A worker whose gpu stays locked until the stack is closed, or why there is none."""
        # A person who measures by hand has looked. Gpus that this run has just measured were watched before, and may
        # still look busy with our own work.
        wait = None if is_together or assignment.run.kind == "manual" else self.stop.wait
        try:
            is_contended = stack.enter_context(
                admitted(target, assignment.state_dir, force=assignment.options.force, wait=wait)
            )
            self.stop.check()
            job = Job(target, assignment, os.getpid(), is_contended=is_contended, is_together=is_together)
            worker = started(job, limit_s=self.limit_s, program=self.program, environ=os.environ)
            return stack.enter_context(worker)
        except AgentError as error:
            return refused(assignment, error, target, is_together=is_together)

    def _attended(self, workers: Sequence[Worker]) -> Iterator[Worker]:
        return attend(workers, self._report_progress, lambda: self.stop.is_asked)

    def _report_progress(self, worker: Worker, step: StepStarted) -> None:
        self.on_progress(worker.job.target, step.progress)


def attend(
    workers: Sequence[Worker], on_step: Callable[[Worker, StepStarted], None], is_stopped: Callable[[], bool]
) -> Iterator[Worker]:
    """
    Each worker when it has ended, in the order in which they do.

    Those that are to measure together are sent `Go` once all that have not ended are ready.

    Args:
        workers: at least one.
        on_step: called with what a worker is about to do.
        is_stopped: whether to ask all for the end.
    """
    barrier = _Barrier()
    left = list(workers)
    while left:
        _await_any(left)
        for worker in left:
            worker.enforce_time_limit()
            if is_stopped():
                worker.end("preempted")
            # After the look whether it has ended, so that nothing is missed of what it said before.
            _handle_messages(worker, on_step, is_alone=len(workers) == 1)
        over = [worker for worker in left if worker.is_over]
        yield from over
        left = [worker for worker in left if worker not in over]
        barrier.open_if_ready(left)


class _Barrier:
    """Holds workers back until all of them are ready."""

    def __init__(self) -> None:
        self._late_at_s = time.monotonic() + _READY_S
        self._is_open = False

    def open_if_ready(self, workers: Sequence[Worker]) -> None:
        """Open the barrier if everybody is there."""
        waiting = [worker for worker in workers if worker.job.is_together and worker.end_reason is None]
        if self._is_open or not waiting:
            return
        if time.monotonic() >= self._late_at_s:
            for worker in waiting:
                if not worker.pipes.output.is_ready:
                    worker.end("timed_out")
        elif all(worker.pipes.output.is_ready for worker in waiting):
            self._is_open = True
            for worker in waiting:
                worker.go(len(waiting))


def _await_any(workers: Sequence[Worker]) -> None:
    readers = [stream for worker in workers for stream in worker.pipes.readers]
    writers = [stream for worker in workers for stream in worker.pipes.writers]
    select.select(readers, writers, [], _POLL_S)


def _handle_messages(worker: Worker, on_step: Callable[[Worker, StepStarted], None], *, is_alone: bool) -> None:
    prefix = "" if is_alone else f"{worker.job.target}: "
    for message in worker.pipes.exchange():
        if isinstance(message, StepStarted):
            on_step(worker, message)
        else:
            log.log(message.level, "%s%s", prefix, message.text)
