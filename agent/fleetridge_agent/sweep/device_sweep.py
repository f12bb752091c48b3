"""
Measures one device of a node: opens it, runs the plan of a sweep on it, and makes a report of what that found.

`measure` does all of it in this process, for a person at a terminal: it asks `busy.admission` first. Where one process
keeps the lock and another touches the gpu, the other calls `measure_admitted`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone

from fleetridge.report import Evidence, Sweep
from fleetridge_agent.busy.admission import admitted
from fleetridge_agent.busy.foreign_use import ForeignUseWatch
from fleetridge_agent.device.interface import Device, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.errors import AgentError, NoDeviceError, PreemptedError, SweepError, UsageError
from fleetridge_agent.gpus.discovery import chosen_gpu, nvml_or_none, visible_gpus
from fleetridge_agent.gpus.targets import Target
from fleetridge_agent.measurement_protocol import DeviceKind
from fleetridge_agent.progress import Progress
from fleetridge_agent.readings.evidence import EvidenceLog
from fleetridge_agent.readings.host import Host
from fleetridge_agent.sweep.call_timer import CallTimer
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.plan import ReferenceStep, Step, StreamStep, SustainedStep, SweepPlan, plan_sweep
from fleetridge_agent.sweep.report import Assignment, Measured, build_report, code_of, refused
from fleetridge_agent.sweep.results import Failure, Note, SweepResult
from fleetridge_agent.sweep.step_executor import StepExecutor

log = logging.getLogger(__name__)

Opener = Callable[[DeviceKind, int | str | None], Device]
"""Opens a device by its kind and its number or UUID, as `open_device` does."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """
    What happens while a device is measured.

    Attributes:
        on_progress: called with each step before it is executed.
        check_stop: called before every piece of work; a SweepError that it raises ends the sweep, with its reason.
        start: called when the device is open; returns once it may be measured, with the number of gpus that are
            measured at the same time, None where this one is alone.
    """

    on_progress: Callable[[Progress], None] = lambda _: None
    check_stop: Callable[[], None] = lambda: None
    start: Callable[[], int | None] = lambda: None


def measure(target: Target, assignment: Assignment, callbacks: Callbacks) -> Measured:
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
            return measure_admitted(target, assignment, callbacks, is_contended=is_contended)
    except UsageError:
        raise
    except AgentError as error:
        return refused(assignment, error, target)


def measure_admitted(
    target: Target,
    assignment: Assignment,
    callbacks: Callbacks,
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
    gpus_at_once = callbacks.start()
    result = run_sweep(
        device, assignment.options, callbacks.on_progress, check_stop=callbacks.check_stop, is_contended=is_contended
    )
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
    return Measured(report, code_of(report.outcome), is_cut_short=result.is_cut_short)


def open_device(kind: DeviceKind | None = None, which: int | str | None = None) -> Device:
    """
    Open one device for measuring.

    Args:
        kind: None means a gpu; a CPU is measured only when asked for.
        which: CUDA's number or the UUID of a gpu; None means the first.

    Raises:
        NoDeviceError: there is no such device, or torch cannot use any.
        SweepError: the device is there and cannot be used; the reason says why, such as `busy` or `out_of_memory`.
    """
    _require_torch()
    if kind == "cpu":
        # Here and below: torch takes seconds to import, and commands that measure nothing do without.
        from fleetridge_agent.device.cpu import CpuDevice  # noqa: PLC0415 # as above

        return CpuDevice(Host(), os.environ)
    gpu = chosen_gpu(visible_gpus(), which)
    from fleetridge_agent.device.cuda import open_cuda  # noqa: PLC0415 # as above

    return open_cuda(gpu, nvml_or_none(), Host(), os.environ)


def run_sweep(
    device: Device,
    options: SweepOptions,
    on_progress: Callable[[Progress], None] = lambda _: None,
    *,
    check_stop: Callable[[], None] = lambda: None,
    is_contended: bool = False,
) -> SweepResult:
    """
    Measure a device.

    What breaks while measuring is in the result, not raised.

    Args:
        device: opened for measuring.
        options: of the sweep.
        on_progress: called with each step before it is executed.
        check_stop: called before every piece of work; a SweepError that it raises ends the sweep, with its reason.
        is_contended: whether somebody used the device already before it was opened.

    Raises:
        UsageError: the options ask for a dtype, model or split that there is not.
    """
    plan = plan_sweep(options, device.description, free_bytes=device.free_bytes())
    return _Sweep(device, options, plan, check_stop).result(on_progress, is_contended=is_contended)


class _Sweep:
    """One sweep under way."""

    def __init__(self, device: Device, options: SweepOptions, plan: SweepPlan, check_stop: Callable[[], None]) -> None:
        self._device = device
        self._options = options
        self._plan = plan
        self._evidence = EvidenceLog(device.telemetry)
        self._watch = ForeignUseWatch(device.foreign_use, check_stop=check_stop, is_forced=options.force)
        self._executor = StepExecutor(CallTimer(device, options.fill, plan.pace, self._evidence, self._watch))
        self._is_cut_short = False

    def result(self, on_progress: Callable[[Progress], None], *, is_contended: bool) -> SweepResult:
        """Take all steps, or as many as can be taken; what breaks is in the result, not raised."""
        measured_from = datetime.now(timezone.utc)
        failure = self._failure_of_all_steps(on_progress)
        # Whatever held on to operands is gone with the error that ended the sweep; whoever comes needs the memory.
        with suppress(SweepError):
            self._device.release()
        executor = self._executor
        points, roofs = executor.results.points_and_roofs(self._plan.shapes)
        return SweepResult(
            measured_from=measured_from,
            # A clock that was set back meanwhile must not make the sweep end before it began.
            measured_to=max(measured_from, datetime.now(timezone.utc)),
            sweep=self._sweep(),
            points=points,
            roofs=roofs,
            evidence=self._whole_evidence(is_contended=is_contended),
            notes=tuple(executor.notes),
            failure=failure,
            is_cut_short=self._is_cut_short,
            is_standard=executor.is_standard and self._options.is_standard,
        )

    def _failure_of_all_steps(self, on_progress: Callable[[Progress], None]) -> Failure | None:
        try:
            for number, step in enumerate(self._plan.steps, start=1):
                on_progress(Progress(number, len(self._plan.steps), str(step)))
                self._execute(step)
        except PreemptedError as error:
            self._is_cut_short = True
            if not self._executor.has_all_judged(self._plan.steps):
                return Failure(error.reason, str(error))
            self._executor.notes.append(Note("the rest of the sweep", error.reason, f"given up: {error}"))
        except SweepError as error:
            return Failure(error.reason, str(error))
        except KeyboardInterrupt:
            return Failure("interrupted", "interrupted from the keyboard or by a signal")
        except Exception as error:
            log.exception("the sweep broke; what was measured before is kept")
            return Failure("crashed", f"{type(error).__name__}: {error}")
        return None

    def _execute(self, step: Step) -> None:
        try:
            self._executor.execute(step)
        except (OutOfDeviceMemoryError, UnsupportedError) as error:
            self._executor.note_skipped(step, error)
        else:
            self._make_sure_of(step)
            return
        # Only here, as the error holds on to the operands of its frames.
        self._device.release()

    def _make_sure_of(self, step: Step) -> None:
        """
        Look once more behind a judged roof: somebody who came since the last look shared the device with it.

        Raises:
            PreemptedError: somebody did; what the step found is forgotten.
        """
        if not isinstance(step, ReferenceStep | StreamStep | SustainedStep):
            return
        try:
            self._watch.look()
        except PreemptedError:
            self._executor.discard_judged(step)
            raise

    def _sweep(self) -> Sweep:
        used_bytes = self._executor.buffer_bytes
        return self._plan.wire.model_copy(update={} if used_bytes is None else {"buffer_bytes": used_bytes})

    def _whole_evidence(self, *, is_contended: bool) -> Evidence:
        # What is kept of a sweep that made room was measured before anybody came.
        before = self._watch.seen_before_arrival if self._executor.has_all_judged(self._plan.steps) else None
        foreign = before or self._device.foreign_use()
        return self._device.description.evidence.model_copy(
            update={
                "phases": self._evidence.phases(),
                "other_processes": foreign.processes,
                "other_processes_bytes": foreign.bytes,
                "signals_seen": foreign.signals,
                "contended": True if is_contended else foreign.contended,
                "unstable": self._executor.is_unstable,
            }
        )


def _require_torch() -> None:
    try:
        import torch  # noqa: F401, PLC0415 # see open_device
    except ImportError as error:
        raise NoDeviceError(
            f"torch cannot be imported ({error}); install fleetridge[agent]", reason="torch_missing"
        ) from error
