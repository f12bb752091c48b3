"""
Runs the plan of a sweep on a device.

    device = open_device("cuda", "GPU-…")            device/opening.py; raises NoDeviceError with the remedy
    result = run_sweep(device, SweepOptions(), show)  never loses what it measured before something broke
    report = build_report(result, device, …)          report_builder.py

`show` is called with a Progress before each step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone

from fleetridge.report import Evidence, Point, Roof, Sweep
from fleetridge_agent.device.contract import Device, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.errors import SweepError
from fleetridge_agent.measure.evidence import EvidenceLog
from fleetridge_agent.measure.notes import Note
from fleetridge_agent.measure.plan import SweepPlan, plan_sweep
from fleetridge_agent.measure.steps import Step
from fleetridge_agent.measure.sweep_options import SweepOptions
from fleetridge_agent.measure.taking import Taking
from fleetridge_agent.measure.watch import Watch
from fleetridge_agent.measure.workbench import Workbench
from fleetridge_agent.progress import Progress

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sweep ended early: a word for programs and a sentence for people."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class SweepResult:
    """
    What a sweep measured.

    Attributes:
        points, roofs: everything measured before the end, early or not.
        notes: what was left out or measured otherwise, and why.
        failure: None where the sweep reached its end.
        is_standard: whether the judged roofs were measured as every agent measures them.
        sweep: what was asked for, with the buffers that were really used.
    """

    measured_from: datetime
    measured_to: datetime
    sweep: Sweep
    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]
    evidence: Evidence
    notes: tuple[Note, ...] = ()
    failure: Failure | None = None
    is_standard: bool = True


def run_sweep(
    device: Device,
    options: SweepOptions,
    on_progress: Callable[[Progress], None] = lambda _: None,
    *,
    heed: Callable[[], None] = lambda: None,
    is_contended: bool = False,
) -> SweepResult:
    """
    Measure a device.

    What breaks while measuring is in the result, not raised.

    Args:
        device: opened for measuring.
        options: of the sweep.
        on_progress: told of each step before it is taken.
        heed: asked before every piece of work; a SweepError that it raises ends the sweep with that error's reason.
        is_contended: whether somebody used the device already before it was opened.

    Raises:
        UsageError: the options ask for a dtype, model or split that there is not.
    """
    plan = plan_sweep(options, device.description, free_bytes=device.free_bytes())
    return _Run(device, options, plan, heed).result(on_progress, is_contended=is_contended)


class _Run:
    """One sweep under way."""

    def __init__(self, device: Device, options: SweepOptions, plan: SweepPlan, heed: Callable[[], None]) -> None:
        self._device = device
        self._options = options
        self._plan = plan
        self._evidence = EvidenceLog(device.telemetry)
        watch = Watch(device.foreign_use, heed=heed, is_forced=options.force)
        self._taking = Taking(Workbench(device, options.fill, plan.pace, self._evidence, watch))

    def result(self, on_progress: Callable[[Progress], None], *, is_contended: bool) -> SweepResult:
        """Take all steps, or as many as can be taken."""
        measured_from = datetime.now(timezone.utc)
        failure = self._failure_of_all_steps(on_progress)
        # Whatever held on to operands is gone with the error that ended the sweep; whoever comes needs the memory.
        with suppress(SweepError):
            self._device.release()
        taken = self._taking
        points, roofs = taken.findings.in_order_of(self._plan.shapes)
        return SweepResult(
            measured_from=measured_from,
            # A clock that was set back meanwhile must not make the sweep end before it began.
            measured_to=max(measured_from, datetime.now(timezone.utc)),
            sweep=self._sweep(),
            points=points,
            roofs=roofs,
            evidence=self._whole_evidence(is_contended=is_contended),
            notes=tuple(taken.notes),
            failure=failure,
            is_standard=taken.is_standard and self._options.is_standard,
        )

    def _failure_of_all_steps(self, on_progress: Callable[[Progress], None]) -> Failure | None:
        try:
            for number, step in enumerate(self._plan.steps, start=1):
                on_progress(Progress(number, len(self._plan.steps), str(step)))
                self._take(step)
        except SweepError as error:
            return Failure(error.reason, str(error))
        except KeyboardInterrupt:
            return Failure("interrupted", "interrupted from the keyboard or by a signal")
        except Exception as error:
            log.exception("the sweep broke; what was measured before is kept")
            return Failure("crashed", f"{type(error).__name__}: {error}")
        return None

    def _take(self, step: Step) -> None:
        try:
            self._taking.take(step)
        except (OutOfDeviceMemoryError, UnsupportedError) as error:
            self._taking.leave_out(step, error)
        else:
            return
        # Only here, as the error holds on to the operands of its frames.
        self._device.release()

    def _sweep(self) -> Sweep:
        used_bytes = self._taking.buffer_bytes
        return self._plan.wire.model_copy(update={} if used_bytes is None else {"buffer_bytes": used_bytes})

    def _whole_evidence(self, *, is_contended: bool) -> Evidence:
        foreign = self._device.foreign_use()
        return self._device.description.evidence.model_copy(
            update={
                "phases": self._evidence.phases(),
                "other_processes": foreign.processes,
                "other_processes_bytes": foreign.bytes,
                "signals_seen": foreign.signals,
                "contended": True if is_contended else foreign.contended,
                "unstable": self._taking.is_unstable,
            }
        )
