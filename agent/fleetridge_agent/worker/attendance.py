"""Attends to workers until all have ended: takes what they say, keeps their time, starts them together."""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable, Iterator, Sequence

from fleetridge_agent.worker.messages import Step
from fleetridge_agent.worker.process import Worker

log = logging.getLogger(__name__)

# Between two looks at clocks and signals, while nobody says anything.
_LOOK_S = 0.1

# Until a worker is ready: importing torch takes seconds, a minute from a cold network drive. One that takes longer does
# not hold up the others.
_READY_S = 120.0


def attend(
    workers: Sequence[Worker], on_step: Callable[[Worker, Step], None], is_stopped: Callable[[], bool]
) -> Iterator[Worker]:
    """
    Each worker when it has ended, in the order in which they do.

    Those that are to measure together are given the word once all that have not ended are ready.

    Args:
        workers: at least one.
        on_step: told of what a worker is about to do.
        is_stopped: whether to ask all for the end.
    """
    barrier = _Barrier()
    left = list(workers)
    while left:
        _await_any(left)
        for worker in left:
            worker.keep_time()
            if is_stopped():
                worker.end("preempted")
            # After the look whether it has ended, so that nothing is missed of what it said before.
            _heard(worker, on_step, is_alone=len(workers) == 1)
        over = [worker for worker in left if worker.is_over]
        yield from over
        left = [worker for worker in left if worker not in over]
        barrier.look_at(left)


class _Barrier:
    """Holds workers back until all of them are ready."""

    def __init__(self) -> None:
        self._late_at_s = time.monotonic() + _READY_S
        self._is_open = False

    def look_at(self, workers: Sequence[Worker]) -> None:
        """Open the barrier if everybody is there."""
        waiting = [worker for worker in workers if worker.order.is_together and worker.why is None]
        if self._is_open or not waiting:
            return
        if time.monotonic() >= self._late_at_s:
            for worker in waiting:
                if not worker.dialogue.said.is_ready:
                    worker.end("timed_out")
        elif all(worker.dialogue.said.is_ready for worker in waiting):
            self._is_open = True
            for worker in waiting:
                worker.go(len(waiting))


def _await_any(workers: Sequence[Worker]) -> None:
    readers = [stream for worker in workers for stream in worker.dialogue.readers]
    writers = [stream for worker in workers for stream in worker.dialogue.writers]
    select.select(readers, writers, [], _LOOK_S)


def _heard(worker: Worker, on_step: Callable[[Worker, Step], None], *, is_alone: bool) -> None:
    prefix = "" if is_alone else f"{worker.order.target}: "
    for message in worker.dialogue.exchange():
        if isinstance(message, Step):
            on_step(worker, message)
        else:
            log.log(message.level, "%s%s", prefix, message.text)
