"""
Measures one device of a node from lock to report.

`measure` is the seam between what a command does with reports and how they come about.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetridge.report import Node, Outcome, Report, Run, RunKind
from fleetridge.uuid7 import uuid7
from fleetridge_agent.device.opening import nvml_or_none, open_device
from fleetridge_agent.errors import AgentError, DeviceBusyError, ExitCode, NoDeviceError, SkippedError, UsageError
from fleetridge_agent.lock import gpu_lock
from fleetridge_agent.measure.report_builder import build_refusal, build_report
from fleetridge_agent.measure.sweep import Failure, Progress, run_sweep
from fleetridge_agent.measure.sweep_options import SweepOptions
from fleetridge_agent.measure.targets import Target
from fleetridge_agent.node.host import Host
from fleetridge_agent.node.idleness import why_busy
from fleetridge_agent.node.roster import node_roster

log = logging.getLogger(__name__)

# A node that has gpus and can measure none as they stand is as it was set up; any other such node has a fault.
_AS_SET_UP = frozenset({"mig_without_slice"})


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


def start_run(kind: RunKind, target_kind: str, environ: Mapping[str, str]) -> Run:
    """A run that begins now; it lists the gpus of the node unless only the CPU is measured."""
    if target_kind == "cpu":
        return Run(run_id=uuid7(), kind=kind)
    roster = node_roster(nvml_or_none(), Host(), environ)
    return Run(run_id=uuid7(), kind=kind, roster=roster.gpus, roster_complete=roster.is_complete)


def measure(target: Target, assignment: Assignment, on_progress: Callable[[Progress], None]) -> Measured:
    """
    Measure one device; what keeps it from being measured is in the report, not raised.

    Raises:
        UsageError: the options cannot be carried out on this device.
    """
    log.info("measuring %s", target)
    try:
        with gpu_lock(assignment.state_dir, _lock_name(target)):
            return _measured(target, assignment, on_progress)
    except UsageError:
        raise
    except AgentError as error:
        log.warning("%s is not measured: %s", target, error)
        return refused(assignment, error, target)


def refused(assignment: Assignment, error: AgentError, target: Target | None = None) -> Measured:
    """Report of a device, or of the node where there is no target, that could not be measured."""
    report = build_refusal(
        _outcome(error),
        Failure(error.reason, str(error)),
        run=assignment.run,
        node=assignment.node,
        options=assignment.options,
        gpu=None if target is None else target.identity,
        arguments=assignment.arguments,
    )
    return Measured(report, error.exit_code)


def combined(codes: list[ExitCode]) -> ExitCode:
    """What the program ends with after several devices: the worst, where skipping some counts for nothing."""
    for code in (ExitCode.FAILED, ExitCode.NO_DEVICE):
        if code in codes:
            return code
    return ExitCode.SKIPPED if codes and set(codes) == {ExitCode.SKIPPED} else ExitCode.DONE


def _measured(target: Target, assignment: Assignment, on_progress: Callable[[Progress], None]) -> Measured:
    is_contended = _is_busy(target, assignment)
    device = open_device(target.kind, target.which)
    result = run_sweep(device, assignment.options, on_progress, is_contended=is_contended)
    for note in result.notes:
        log.warning("%s: %s", note.what, note.detail)
    report = build_report(
        result,
        device,
        run=assignment.run,
        node=assignment.node,
        arguments=assignment.arguments,
    )
    if report.outcome != "measured":
        log.warning("%s: %s (%s): %s", target, report.outcome, report.reason, report.detail)
    return Measured(report, _code(report.outcome))


def _is_busy(target: Target, assignment: Assignment) -> bool:
    """
    Look who uses a gpu before anything touches it.

    Returns:
        Whether somebody does and it is to be measured nevertheless.

    Raises:
        DeviceBusyError: somebody does.
    """
    # A person who measures by hand has looked; a timer has not, so it watches the gpu for two seconds.
    wait = None if assignment.run.kind == "manual" else time.sleep
    nvml = None if target.gpu is None else nvml_or_none()
    known = (
        None
        if nvml is None or target.gpu is None
        else nvml.find(uuid=target.gpu.uuid, pci_bus_id=target.gpu.pci_bus_id)
    )
    why = None if known is None else why_busy(known, wait=wait)
    if why is None:
        return False
    if not assignment.options.force:
        raise DeviceBusyError(f"{target} is busy, {why}; wait until it is idle, or give --force to measure in company")
    log.warning("%s is busy, %s; measured nevertheless, and marked as contended", target, why)
    return True


def _outcome(error: AgentError) -> Outcome:
    if isinstance(error, SkippedError):
        return "skipped"
    if isinstance(error, NoDeviceError) and error.reason in _AS_SET_UP:
        return "unsupported"
    return "failed"


def _code(outcome: Outcome) -> ExitCode:
    if outcome == "measured":
        return ExitCode.DONE
    return ExitCode.FAILED if outcome == "failed" else ExitCode.SKIPPED


def _lock_name(target: Target) -> str:
    # A home directory may be shared by many nodes, and each has a CPU of its own.
    return str(target.which) if target.gpu is not None else f"CPU-{platform.node()}"
