"""Reports from what a sweep measured, or from why there was none, and what the reports of one run share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import fleetridge
from fleetridge.report import SCHEMA_VERSION, Agent, Evidence, Gpu, Method, Node, Outcome, Report, Run, RunKind
from fleetridge.terminal_text import shortened, visible
from fleetridge.uuid7 import uuid7
from fleetridge_agent.device.interface import Device
from fleetridge_agent.errors import AgentError, DeviceBusyError, ExitCode, PreemptedError
from fleetridge_agent.gpus.discovery import Roster
from fleetridge_agent.gpus.listing import LostGpu
from fleetridge_agent.gpus.targets import Target
from fleetridge_agent.measurement_protocol import PROTOCOL_VERSION
from fleetridge_agent.sweep.options import SweepOptions, method_of
from fleetridge_agent.sweep.results import Failure, SweepResult, summary

log = logging.getLogger(__name__)

# Well inside what the contract takes, and more than anybody reads.
_LONGEST_DETAIL = 2000


@dataclass(frozen=True, slots=True)
class Assignment:
    """
    What the sweeps of one run share.

    Attributes:
        arguments: of the command line, for the reports.
        lost: gpus of the node that the driver has lost and that nobody need try to measure.
    """

    run: Run
    node: Node
    options: SweepOptions
    arguments: tuple[str, ...]
    state_dir: Path
    lost: tuple[LostGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """
    Report of one device, measured or not.

    Attributes:
        code: that the program would end with if this were its only device.
        is_cut_short: whether its sweep made room before its end.
    """

    report: Report
    code: ExitCode
    is_cut_short: bool = False


def start_run(kind: RunKind, roster: Roster) -> Run:
    """A run that begins now, on a node with these gpus."""
    return Run(run_id=uuid7(), kind=kind, roster=roster.gpus, roster_complete=roster.is_complete)


def build_report(
    result: SweepResult,
    device: Device,
    *,
    run: Run,
    node: Node,
    arguments: Sequence[str] = (),
    gpus_at_once: int | None = None,
) -> Report:
    """
    Report of one sweep: measured; unsupported or failed where it measured nothing or broke; skipped if it made room.

    A sweep that broke, or made room before its judged roofs were found, keeps the points and roofs that it had.

    Args:
        result: what was measured.
        device: on what.
        run: whose sweep it is.
        node: where.
        arguments: of the command line.
        gpus_at_once: gpus that were measured at the same time, None where this one was alone.
    """
    outcome, reason, detail = _outcome(result)
    method = method_of(is_standard=result.is_standard, is_together=gpus_at_once is not None)
    return Report(
        schema_version=SCHEMA_VERSION,
        report_id=uuid7(),
        measured_from=result.measured_from,
        measured_to=result.measured_to,
        run=run,
        outcome=outcome,
        reason=reason,
        detail=one_line(detail),
        agent=_agent(method, arguments),
        node=node,
        gpu=device.description.gpu,
        environment=device.description.environment,
        evidence=result.evidence,
        sweep=result.sweep.model_copy(update={"gpus_at_once": gpus_at_once}),
        points=result.points,
        roofs=result.roofs,
    )


def build_refusal(
    outcome: Outcome,
    failure: Failure,
    *,
    run: Run,
    node: Node,
    method: Method,
    gpu: Gpu | None = None,
    evidence: Evidence | None = None,
    arguments: Sequence[str] = (),
) -> Report:
    """Report of a gpu, or of the node where `gpu` is None, that was not measured: skipped, unsupported or failed."""
    now = datetime.now(timezone.utc)
    return Report(
        schema_version=SCHEMA_VERSION,
        report_id=uuid7(),
        measured_from=now,
        measured_to=now,
        run=run,
        outcome=outcome,
        reason=failure.reason,
        detail=one_line(failure.detail),
        agent=_agent(method, arguments),
        node=node,
        gpu=gpu,
        evidence=evidence or Evidence(),
    )


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
        _outcome_of_error(error),
        Failure(error.reason, str(error)),
        run=assignment.run,
        node=assignment.node,
        method=method_of(is_standard=assignment.options.is_standard, is_together=is_together),
        gpu=None if target is None else target.identity,
        evidence=error.evidence if isinstance(error, DeviceBusyError) else None,
        arguments=assignment.arguments,
    )
    return Measured(report, error.exit_code, is_cut_short=isinstance(error, PreemptedError))


def lost(assignment: Assignment, gpu: LostGpu) -> Measured:
    """Report of a gpu that the driver has lost; logged too."""
    name = gpu.gpu.uuid or gpu.gpu.pci_bus_id or f"number {gpu.gpu.index}"
    log.warning("gpu %s is lost (%s): %s", name, gpu.reason, gpu.detail)
    report = build_refusal(
        "failed",
        Failure(gpu.reason, gpu.detail),
        run=assignment.run,
        node=assignment.node,
        method=method_of(is_standard=assignment.options.is_standard, is_together=False),
        gpu=gpu.gpu,
        arguments=assignment.arguments,
    )
    return Measured(report, ExitCode.FAILED)


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


def one_line(text: str | None) -> str | None:
    """Text of a driver or of torch as one printable line of bounded length; None stays None."""
    return shortened(visible(" ".join(text.split())), _LONGEST_DETAIL) if text else None


def _outcome(result: SweepResult) -> tuple[Outcome, str | None, str | None]:
    """Outcome, reason and detail."""
    notes = summary(result.notes)
    if result.failure is not None:
        outcome: Outcome = "skipped" if result.is_cut_short else "failed"
        return outcome, result.failure.reason, result.failure.detail
    if result.points:
        return "measured", None, notes
    if all(note.reason == "unsupported" for note in result.notes):
        return "unsupported", "dtype_unsupported", notes or "nothing was asked for"
    return "failed", "out_of_memory", notes


def _agent(method: Method, arguments: Sequence[str]) -> Agent:
    return Agent(
        version=fleetridge.__version__,
        protocol_version=PROTOCOL_VERSION,
        method=method,
        arguments=tuple(arguments),
    )


def _outcome_of_error(error: AgentError) -> Outcome:
    return "skipped" if error.exit_code is ExitCode.SKIPPED else "failed"
