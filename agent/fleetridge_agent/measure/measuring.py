"""
Measures one device of a node, and what the sweeps of one run share.

`measure` does all of it in this process, for a person at a terminal: it asks `busy.admission` first. Where one process
keeps the lock and another touches the gpu, the other calls `measure_admitted`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from fleetridge_agent.busy.admission import admitted
from fleetridge_agent.device.contract import Device, DeviceKind
from fleetridge_agent.device.opening import open_device
from fleetridge_agent.errors import AgentError, UsageError
from fleetridge_agent.measure.report_builder import Assignment, Measured, build_report, code_of, refused
from fleetridge_agent.measure.sweep import run_sweep
from fleetridge_agent.measure.targets import Target
from fleetridge_agent.progress import Progress

log = logging.getLogger(__name__)

Opener = Callable[[DeviceKind, int | str | None], Device]
"""Opens a device by its kind and its number or UUID, as `open_device` does."""


@dataclass(frozen=True, slots=True)
class Course:
    """
    What happens while a device is measured.

    Attributes:
        on_progress: told of each step before it is taken.
        heed: asked before every piece of work; a SweepError that it raises ends the sweep with that error's reason.
        start: called when the device is open; returns once it may be measured, with the number of gpus that are
            measured at the same time, None where this one is alone.
    """

    on_progress: Callable[[Progress], None] = lambda _: None
    heed: Callable[[], None] = lambda: None
    start: Callable[[], int | None] = lambda: None


def measure(target: Target, assignment: Assignment, course: Course) -> Measured:
    """
    Measure one device in this process; what keeps it from being measured is in the report, not raised.

    Raises:
        UsageError: the options cannot be carried out on this device.
    """
    log.info("measuring %s", target)
    # A person who measures by hand has looked; a timer has not, so it watches the gpu for two seconds.
    wait = None if assignment.run.kind == "manual" else time.sleep
    try:
        with admitted(target, assignment.state_dir, force=assignment.options.force, wait=wait) as is_contended:
            return measure_admitted(target, assignment, course, is_contended=is_contended)
    except UsageError:
        raise
    except AgentError as error:
        return refused(assignment, error, target)


def measure_admitted(
    target: Target,
    assignment: Assignment,
    course: Course,
    *,
    is_contended: bool,
    opener: Opener | None = None,
) -> Measured:
    """
    Open a device whose lock is held, and measure it; what breaks while measuring is in the report.

    Raises:
        UsageError: the options cannot be carried out on this device.
        AgentError: the device cannot be opened.
    """
    device = (opener or open_device)(target.kind, target.which)
    gpus_at_once = course.start()
    result = run_sweep(device, assignment.options, course.on_progress, heed=course.heed, is_contended=is_contended)
    for note in result.notes:
        log.warning("%s: %s", note.what, note.detail)
    report = build_report(
        result,
        device,
        run=assignment.run,
        node=assignment.node,
        arguments=assignment.arguments,
        gpus_at_once=gpus_at_once,
    )
    if report.outcome != "measured":
        log.warning("%s: %s (%s): %s", target, report.outcome, report.reason, report.detail)
    return Measured(report, code_of(report.outcome))
