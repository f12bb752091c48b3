"""
Runs the plan of a sweep on a device.

    device = open_device("cuda", "GPU-…")            devices.py; raises NoDeviceError with the remedy
    result = run_sweep(device, SweepOptions(), show)  never loses what it measured before something broke
    report = build_report(result, device, …)          report_builder.py

`show` is called with a Progress before each step; a SweepError that it raises ends the sweep with that error's reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from fleetridge.report import Evidence, Point, Roof, Sweep
from fleetridge_agent.device.contract import Device, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.device.product import Product
from fleetridge_agent.errors import SweepError
from fleetridge_agent.measure.evidence import EvidenceLog
from fleetridge_agent.measure.findings import Findings
from fleetridge_agent.measure.gemm import measure_in_blocks, measure_shape
from fleetridge_agent.measure.plan import BestStep, ReferenceStep, ShapeStep, Step, StreamStep, SweepPlan, plan_sweep
from fleetridge_agent.measure.protocol import REST_S
from fleetridge_agent.measure.stream import measure_streams
from fleetridge_agent.measure.sweep_options import SweepOptions
from fleetridge_agent.measure.workbench import Workbench

log = logging.getLogger(__name__)

_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Progress:
    """What a sweep is about to do: step number `step` of `steps`, from 1."""

    step: int
    steps: int
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """
    Something that was planned and not measured, or measured otherwise.

    Attributes:
        what: the step.
        reason: `out_of_memory` or `unsupported`.
        detail: sentence for people.
    """

    what: str
    reason: str
    detail: str


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


def run_sweep(
    device: Device, options: SweepOptions, on_progress: Callable[[Progress], None] = lambda _: None
) -> SweepResult:
    """
    Measure a device.

    What breaks while measuring is in the result, not raised.

    Raises:
        UsageError: the options ask for a dtype, model or split that there is not.
    """
    plan = plan_sweep(options, device.description, free_bytes=device.free_bytes())
    return _Run(device, options, plan).result(on_progress)


class _Run:
    """One sweep under way."""

    def __init__(self, device: Device, options: SweepOptions, plan: SweepPlan) -> None:
        self._device = device
        self._plan = plan
        self._evidence = EvidenceLog(device.telemetry)
        self._bench = Workbench(device, options.fill, plan.pace, self._evidence)
        self._findings = Findings()
        self._notes: list[Note] = []
        self._given_up: set[Product] = set()

    def result(self, on_progress: Callable[[Progress], None]) -> SweepResult:
        measured_from = datetime.now(timezone.utc)
        failure = self._failure_of_all_steps(on_progress)
        points, roofs = self._findings.in_order_of(self._plan.shapes)
        return SweepResult(
            measured_from=measured_from,
            # A clock that was set back meanwhile must not make the sweep end before it began.
            measured_to=max(measured_from, datetime.now(timezone.utc)),
            sweep=self._sweep(),
            points=points,
            roofs=roofs,
            evidence=self._whole_evidence(),
            notes=tuple(self._notes),
            failure=failure,
        )

    def _failure_of_all_steps(self, on_progress: Callable[[Progress], None]) -> Failure | None:
        try:
            for number, step in enumerate(self._plan.steps, start=1):
                on_progress(Progress(number, len(self._plan.steps), str(step)))
                self._take(step)
            self._device.release()
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
            self._measure(step)
        except (OutOfDeviceMemoryError, UnsupportedError) as error:
            self._notes.append(Note(str(step), error.reason, str(error)))
            if isinstance(error, UnsupportedError) and isinstance(step, ReferenceStep):
                # Where not even the judged shapes can be multiplied so, no other shape can.
                self._given_up.add(step.product)
        else:
            return
        # Only here, as the error holds on to the operands of its frames.
        self._device.release()

    def _measure(self, step: Step) -> None:
        if isinstance(step, StreamStep):
            self._measure_streams(step)
        elif isinstance(step, ShapeStep):
            self._measure_shape(step)
        elif isinstance(step, ReferenceStep):
            phase = f"reference {step.product}"
            measured = measure_in_blocks(self._bench, step.gemms, label="reference", phase=phase)
            self._findings.references[step.product] = measured
        else:
            self._measure_best(step)

    def _measure_shape(self, step: ShapeStep) -> None:
        if step.gemm.product not in self._given_up:
            self._device.rest(REST_S)
            self._findings.shapes[step] = measure_shape(self._bench, step.gemm, step.label)

    def _measure_best(self, step: BestStep) -> None:
        fastest = self._findings.fastest(step.product)
        if fastest is not None:
            (best,) = measure_in_blocks(self._bench, [fastest], label="best", phase=f"best {step.product}")
            self._findings.bests[step.product] = best

    def _measure_streams(self, step: StreamStep) -> None:
        streams = measure_streams(self._bench, step.buffer_bytes)
        self._findings.streams = streams
        if streams.buffer_bytes != step.buffer_bytes:
            used = f"did not fit; measured with {streams.buffer_bytes // _MIB} MiB instead"
            self._notes.append(Note(str(step), "out_of_memory", used))

    def _sweep(self) -> Sweep:
        streams = self._findings.streams
        if streams is None:
            return self._plan.wire
        return self._plan.wire.model_copy(update={"buffer_bytes": streams.buffer_bytes})

    def _whole_evidence(self) -> Evidence:
        foreign = self._device.foreign_use()
        return self._device.description.evidence.model_copy(
            update={
                "phases": self._evidence.phases(),
                "other_processes": foreign.processes,
                "other_processes_bytes": foreign.bytes,
                "signals_seen": foreign.signals,
                "contended": foreign.contended,
            }
        )
