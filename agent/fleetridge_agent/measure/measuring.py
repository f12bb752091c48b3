"""
Measures one device of a node, and what the sweeps of one run share.

`measure` does all of it in this process, for a person at a terminal: it asks `busy.admission` first. Where one process
keeps the lock and another touches the gpu, the other calls `measure_admitted`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetridge.report import Node, Outcome, Report, Run, RunKind
from fleetridge.uuid7 import uuid7
from fleetridge_agent.busy.admission import admitted
from fleetridge_agent.device.contract import Device, DeviceKind
from fleetridge_agent.device.opening import nvml_or_none, open_device
from fleetridge_agent.errors import AgentError, DeviceBusyError, ExitCode, UsageError
from fleetridge_agent.measure.report_builder import build_refusal, build_report
from fleetridge_agent.measure.sweep import Failure, run_sweep
from fleetridge_agent.measure.sweep_options import SweepOptions, method_of
from fleetridge_agent.measure.targets import Target
from fleetridge_agent.node.host import Host
from fleetridge_agent.node.roster import node_roster
from fleetridge_agent.progress import Progress

log = logging.getLogger(__name__)

Opener = Callable[[DeviceKind, int | str | None], Device]
"""Opens a device by its kind and its number or UUID, as `open_device` does."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """
    What the sweeps of one run share.

    Attributes:
        arguments: of the command line, for the reports.
    """

    run: Run
    node: Node
    options: SweepOptions
    arguments: tuple[str, ...]
    state_dir: Path


@dataclass(frozen=True, slots=True)
class Measured:
    """
    Report of one device, measured or not.

    Attributes:
        code: that the program would end with if this were its only device.
    """

    report: Report
    code: ExitCode


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


def start_run(kind: RunKind, target_kind: str, environ: Mapping[str, str]) -> Run:
    """A run that begins now; it lists the gpus of the node unless only the CPU is measured."""
    if target_kind == "cpu":
        return Run(run_id=uuid7(), kind=kind)
    roster = node_roster(nvml_or_none(), Host(), environ)
    return Run(run_id=uuid7(), kind=kind, roster=roster.gpus, roster_complete=roster.is_complete)


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


def refused(
    assignment: Assignment, error: AgentError, target: Target | None = None, *, is_together: bool = False
) -> Measured:
    """
    Report of a device, or of the node where there is no target, that could not be measured; logged too.

    Args:
        assignment: of the run.
        error: what keeps it from being measured.
        target: the device.
        is_together: whether it was to be measured at the same time as the others of its node.
    """
    log.warning("%s is not measured: %s", "this node" if target is None else target, error)
    report = build_refusal(
        _outcome(error),
        Failure(error.reason, str(error)),
        run=assignment.run,
        node=assignment.node,
        method=method_of(is_standard=assignment.options.is_standard, is_together=is_together),
        gpu=None if target is None else target.identity,
        evidence=error.evidence if isinstance(error, DeviceBusyError) else None,
        arguments=assignment.arguments,
    )
    return Measured(report, error.exit_code)


def combined(codes: list[ExitCode]) -> ExitCode:
    """What the program ends with after several devices: the worst, where skipping some counts for nothing."""
    for code in (ExitCode.FAILED, ExitCode.NO_DEVICE):
        if code in codes:
            return code
    return ExitCode.SKIPPED if codes and set(codes) == {ExitCode.SKIPPED} else ExitCode.DONE


def code_of(outcome: Outcome) -> ExitCode:
    """What the program would end with if a device with this outcome were its only one."""
    if outcome == "measured":
        return ExitCode.DONE
    return ExitCode.FAILED if outcome == "failed" else ExitCode.SKIPPED


def _outcome(error: AgentError) -> Outcome:
    return "skipped" if error.exit_code is ExitCode.SKIPPED else "failed"
