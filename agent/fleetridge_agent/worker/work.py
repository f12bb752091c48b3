"""What a worker does: takes an order, measures one gpu, and hands its report to whoever gave the order."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

from fleetridge_agent.busy.admission import is_busy
from fleetridge_agent.errors import AgentError, ExitCode, UsageError
from fleetridge_agent.log import LOGGER, strays_logged
from fleetridge_agent.measure.measuring import Course, Opener, measure_admitted
from fleetridge_agent.measure.report_builder import Measured, refused
from fleetridge_agent.progress import Progress
from fleetridge_agent.stop import Stop, stopping_on_signals
from fleetridge_agent.worker.messages import Finished, Go, Misused, Ready, Step, line_of
from fleetridge_agent.worker.order import Order, order_of
from fleetridge_agent.worker.parent import Parent, RemarkHandler, die_with_parent


def _import_torch() -> None:
    # Without torch, opening the device says what is missing.
    with suppress(ImportError):
        import torch  # noqa: F401, PLC0415 # in the process that measures, and there only


def work(opener: Opener | None = None, prepare: Callable[[], None] = _import_torch) -> ExitCode:
    """
    Carry out the order that comes on standard input; all that is said of it goes to standard output.

    Args:
        opener: opens the device; None is what opens real ones.
        prepare: whatever takes long and touches no gpu, so that the last look at the gpu is taken after it.
    """
    die_with_parent()
    prepare()
    parent = Parent()
    order = order_of(parent.hear())
    if os.getppid() != order.parent:
        # It died before the kernel knew that we are to die with it.
        return ExitCode.FAILED
    logger = logging.getLogger(LOGGER)
    logger.handlers, logger.propagate = [RemarkHandler(parent)], False
    logger.setLevel(logging.INFO)
    # Until here a signal ends this process at once; from here on the gpu is ours, and is left in order.
    with strays_logged(), stopping_on_signals() as stop:
        try:
            measured = _measured(order, parent, stop, opener)
        except UsageError as error:
            parent.tell(line_of(Misused(text=str(error))))
            return error.exit_code
    parent.tell(line_of(Finished(code=measured.code, report=measured.report)))
    return measured.code


def _measured(order: Order, parent: Parent, stop: Stop, opener: Opener | None) -> Measured:
    def start() -> int | None:
        if not order.is_together:
            return None
        parent.tell(line_of(Ready()))
        return Go.model_validate_json(parent.hear(stop.check)).gpus_at_once

    def tell(progress: Progress) -> None:
        parent.tell(line_of(Step(progress=progress)))

    target, assignment = order.target, order.assignment
    try:
        # Once more, as starting up took seconds in which somebody may have come.
        is_contended = order.is_contended or is_busy(target, force=assignment.options.force)
        course = Course(on_progress=tell, heed=stop.check, start=start)
        return measure_admitted(target, assignment, course, is_contended=is_contended, opener=opener)
    except UsageError:
        raise
    except AgentError as error:
        return refused(assignment, error, target, is_together=order.is_together)
