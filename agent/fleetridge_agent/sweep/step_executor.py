"""Executes the steps of a sweep one by one and keeps what each found; at the end judged roofs are measured again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fleetridge.quantities import MIB, significant
from fleetridge.report import GemmPoint
from fleetridge_agent.device.gemm_variants import Gemm, GemmVariant
from fleetridge_agent.device.interface import OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.measurement_protocol import CANARY_BLOCKS, CANARY_GAP, REST_S
from fleetridge_agent.sweep.call_timer import CallTimer
from fleetridge_agent.sweep.gemm import MeasuredGemm, measure_in_blocks, measure_shape, replayed, timed_singly
from fleetridge_agent.sweep.plan import (
    CanaryStep,
    DecodeStep,
    LinkStep,
    ReferenceStep,
    SearchStep,
    ShapeStep,
    Step,
    StreamStep,
    SustainedStep,
)
from fleetridge_agent.sweep.results import Note, Results, notes_on
from fleetridge_agent.sweep.shapes import search
from fleetridge_agent.sweep.streams import MeasuredStream, measure_links, measure_read, measure_streams
from fleetridge_agent.sweep.sustained import measure_sustained

MeasurementT = TypeVar("MeasurementT")


@dataclass(slots=True)
class StepExecutor:
    """
    Takes the steps of a sweep, and holds what they found so far.

    Attributes:
        results: what they found.
        notes: what must be said of it.
        buffer_bytes: of the streams as they were measured, None until then.
        is_standard: False once a judged roof had to be measured otherwise than the protocol asks.
        is_unstable: what the canary said, None until then.
    """

    timer: CallTimer
    results: Results = field(default_factory=Results)
    notes: list[Note] = field(default_factory=list)
    buffer_bytes: int | None = None
    is_standard: bool = True
    is_unstable: bool | None = None
    _given_up: set[GemmVariant] = field(default_factory=set)
    _not_taken: set[Step] = field(default_factory=set)

    def execute(self, step: Step) -> None:
        """
        Take one step.

        Raises:
            SweepError: nothing more can be measured.
            OutOfDeviceMemoryError, UnsupportedError: this step cannot be taken; others can.
        """
        if isinstance(step, ReferenceStep):
            self._reference(step)
        elif isinstance(step, StreamStep):
            self._streams(step)
        elif isinstance(step, LinkStep):
            self.results.add_streams(measure_links(self.timer))
        elif isinstance(step, CanaryStep):
            self._canary(step)
        elif self._variant_of(step) in self._given_up:
            return
        elif isinstance(step, SearchStep):
            self.results.bests[self._variant_of(step)] = search(self.timer, step.gemms)
        elif isinstance(step, SustainedStep):
            self._sustained(step)
        elif isinstance(step, ShapeStep):
            self._shape(step)
        else:
            self._decode(step)

    def discard_judged(self, step: Step) -> None:
        """Forget what a step found of judged roofs, where somebody may have used the device meanwhile."""
        if isinstance(step, ReferenceStep):
            self.results.references.pop(step.gemm.variant, None)
        elif isinstance(step, SustainedStep):
            self.results.sustained.pop(step.gemm.variant, None)
        elif isinstance(step, StreamStep):
            self.results.streams.clear()

    def has_all_judged(self, steps: Sequence[Step]) -> bool:
        """Whether the judged burst and memory roofs among these steps were found, as far as the device has them."""
        found = [
            step.gemm.variant in self.results.references
            if isinstance(step, ReferenceStep)
            else self.results.read is not None
            for step in steps
            if isinstance(step, ReferenceStep | StreamStep) and step not in self._not_taken
        ]
        return bool(found) and all(found)

    def note_skipped(self, step: Step, error: OutOfDeviceMemoryError | UnsupportedError) -> None:
        """Note that a step could not be taken, and take no other with the same product where there is none."""
        self.notes.append(Note(str(step), error.reason, str(error)))
        self._not_taken.add(step)
        if isinstance(error, UnsupportedError) and isinstance(step, ReferenceStep):
            # Where not even the judged shape can be multiplied so, no other shape can.
            self._given_up.add(step.gemm.variant)

    def _variant_of(self, step: SearchStep | SustainedStep | ShapeStep | DecodeStep) -> GemmVariant:
        if isinstance(step, SearchStep):
            return step.gemms[0].variant
        return (step.shapes[0] if isinstance(step, DecodeStep) else step).gemm.variant

    def _reference(self, step: ReferenceStep) -> None:
        measured = self._measured_reference(step.gemm, self.timer.pace.looks)
        self.results.references[step.gemm.variant] = measured
        self._note_blocks(str(step), measured)

    def _measured_reference(self, gemm: Gemm, looks: Sequence[int]) -> MeasuredGemm:
        phase = f"reference {gemm.variant}"
        return measure_in_blocks(self.timer, [gemm], label="reference", phase=phase, looks=looks)[0]

    def _sustained(self, step: SustainedStep) -> None:
        measured = measure_sustained(self.timer, step.gemm, label="reference", phase=str(step))
        self.results.sustained[step.gemm.variant] = measured
        self._note_blocks(str(step), measured)

    def _streams(self, step: StreamStep) -> None:
        measured = measure_streams(self.timer, step.buffer_bytes)
        self.results.add_streams(measured.streams)
        self.buffer_bytes = measured.buffer_bytes
        if measured.buffer_bytes != step.standard_bytes:
            self.is_standard = False
            used = f"{step.standard_bytes // MIB} MiB did not fit; measured with {measured.buffer_bytes // MIB} MiB"
            self.notes.append(Note(str(step), "out_of_memory", f"{used} instead, so the method is custom"))
        for stream in measured.streams:
            if stream.blocks is not None:
                what = f"stream {stream.point.kernel}"
                self.notes += notes_on(what, stream.point.derived_gbps, "GB/s", stream.blocks)

    def _shape(self, step: ShapeStep) -> None:
        self.timer.device.rest(REST_S)
        point = measure_shape(self.timer, step.gemm, step.label)
        if point is None:
            (self.results.shapes[step],) = replayed(self.timer, step.gemm, [step.gemm.m], step.label)
        else:
            self.results.shapes[step] = (point,)

    def _decode(self, step: DecodeStep) -> None:
        supported = [shape for shape in step.shapes if self._is_supported(shape)]
        if not self.timer.device.description.has_replay:
            for shape in supported:
                self.results.shapes[shape] = timed_singly(self.timer, shape.gemm, shape.label)
        elif supported:
            largest = max((shape.gemm for shape in supported), key=lambda gemm: gemm.m)
            points = replayed(self.timer, largest, [shape.gemm.m for shape in supported], supported[0].label)
            for shape, of_shape in zip(supported, points, strict=True):
                self.results.shapes[shape] = of_shape

    def _is_supported(self, shape: ShapeStep) -> bool:
        """Whether the device can multiply so few rows; noted where it cannot."""
        try:
            self.timer.device.require_supported(shape.gemm)
        except UnsupportedError as error:
            self.note_skipped(shape, error)
            return False
        return True

    def _canary(self, step: CanaryStep) -> None:
        reference = None if step.gemm is None else self.results.references.get(step.gemm.variant)
        unstable: list[Note | None] = []
        if step.gemm is not None and reference is not None:
            canary = self._remeasured_reference(step.gemm, reference)
            self.results.references[step.gemm.variant] = canary.kept
            unstable.append(canary.note)
        if step.has_streams and self.results.read is not None:
            read = self._remeasured_read(self.results.read)
            self.results.add_streams([read.kept])
            unstable.append(read.note)
        if unstable:
            self.notes += [note for note in unstable if note is not None]
            self.is_unstable = any(unstable)

    def _remeasured_reference(self, gemm: Gemm, before: MeasuredGemm) -> CanaryResult[MeasuredGemm]:
        return remeasured(
            before,
            lambda looks: self._measured_reference(gemm, looks),
            lambda measured: measured.point.derived_tflops,
            looks=self.timer.pace.looks,
            what=f"reference {gemm.variant}",
        )

    def _remeasured_read(self, before: MeasuredStream) -> CanaryResult[MeasuredStream]:
        buffer_bytes = before.point.bytes
        return remeasured(
            before,
            lambda looks: measure_read(self.timer, buffer_bytes, looks=looks),
            lambda measured: measured.point.derived_gbps,
            looks=self.timer.pace.looks,
            what="stream read",
        )

    def _note_blocks(self, what: str, measured: MeasuredGemm) -> None:
        point: GemmPoint = measured.point
        self.notes += notes_on(what, point.derived_tflops, "TFLOP/s", measured.blocks)


@dataclass(frozen=True, slots=True)
class CanaryResult(Generic[MeasurementT]):
    """
    What the canary found of one roof.

    Attributes:
        kept: the measurement that counts from now on.
        note: None where the device is what it was.
    """

    kept: MeasurementT
    note: Note | None


def remeasured(
    before: MeasurementT,
    again: Callable[[Sequence[int]], MeasurementT],
    rate_of: Callable[[MeasurementT], float],
    *,
    looks: Sequence[int],
    what: str,
) -> CanaryResult[MeasurementT]:
    """
    Compare a roof with a short measurement of the same.

    Where the two differ, the roof is measured in full once more: two that agree against one decide which of the full
    measurements counts. The device has been unstable in any case.

    Args:
        before: the roof as it was measured.
        again: measures it anew, with so many blocks.
        rate_of: rate of a measurement.
        looks: numbers of blocks of a full measurement.
        what: name of the roof.
    """
    rate, at_end = rate_of(before), rate_of(again((CANARY_BLOCKS,)))
    if _is_near(rate, at_end):
        return CanaryResult(before, None)
    repeated = again(looks)
    kept = repeated if _is_near(rate_of(repeated), at_end) else before
    rates = f"{significant(rate)} before, {significant(at_end)} at the end, {significant(rate_of(repeated))} once more"
    return CanaryResult(kept, Note(what, "unstable", f"{rates}; {significant(rate_of(kept))} is kept"))


def _is_near(rate: float, other: float) -> bool:
    return abs(other / rate - 1) <= CANARY_GAP
