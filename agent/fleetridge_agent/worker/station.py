"""
Measures gpus in processes of their own, one after the other or all at once.

This process keeps the locks, looks who uses a gpu, and attends to the workers; it never imports torch.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fleetridge_agent.busy.admission import admitted
from fleetridge_agent.errors import AgentError
from fleetridge_agent.measure.report_builder import Assignment, Measured, refused
from fleetridge_agent.measure.targets import Target
from fleetridge_agent.progress import Progress
from fleetridge_agent.stop import Stop
from fleetridge_agent.worker.attendance import attend
from fleetridge_agent.worker.messages import Step
from fleetridge_agent.worker.order import Order
from fleetridge_agent.worker.outcome import measured_by
from fleetridge_agent.worker.process import PROGRAM, Worker, started

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Station:
    """
    Where workers are started and attended to.

    Attributes:
        limit_s: time that a gpu may take, until its worker is ended.
        on_progress: told of each step of each gpu.
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
            order = Order(target, assignment, os.getpid(), is_contended=is_contended, is_together=is_together)
            worker = started(order, limit_s=self.limit_s, program=self.program, environ=os.environ)
            return stack.enter_context(worker)
        except AgentError as error:
            return refused(assignment, error, target, is_together=is_together)

    def _attended(self, workers: Sequence[Worker]) -> Iterator[Worker]:
        return attend(workers, self._tell, lambda: self.stop.is_asked)

    def _tell(self, worker: Worker, step: Step) -> None:
        self.on_progress(worker.order.target, step.progress)
