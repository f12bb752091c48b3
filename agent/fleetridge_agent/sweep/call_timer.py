"""Repeated calls on a device: how often, warm-up, queues of bounded length, blocks with rests, unbroken load."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from fleetridge_agent.busy.foreign_use import ForeignUseWatch
from fleetridge_agent.device.gemm_variants import Fill
from fleetridge_agent.device.interface import Device, Launch
from fleetridge_agent.measurement_protocol import (
    BLOCK_MS,
    BLOCK_WARMUP,
    LOOKS,
    MIN_REPS,
    QUEUE_MS,
    RAMP_UP_MS,
    REST_S,
    WARMUP_SHARE,
    WINDOW_MS,
)
from fleetridge_agent.readings.evidence import EvidenceLog
from fleetridge_agent.sweep.timing_statistics import (
    BlockTiming,
    Timing,
    calls_that_fit,
    queue_lengths,
    timing_of,
    timing_of_blocks,
)

# Timed calls that find out how long a call takes; the fastest counts, so that one wild sample does not matter.
_PROBES = 2


@dataclass(frozen=True, slots=True)
class Pace:
    """
    Repetitions of a call.

    Attributes:
        warmup, reps: untimed and timed calls.
        budget_ms: time that the timed calls of one point may take; slow devices and large shapes get fewer.
        looks: numbers of blocks after which a roof may stop; the last is its budget.
        is_warmup_fixed, is_reps_fixed: whether the user asked for the number, which then is made in full.
    """

    warmup: int
    reps: int
    budget_ms: float
    looks: tuple[int, ...] = LOOKS
    is_warmup_fixed: bool = False
    is_reps_fixed: bool = False

    def warmup_calls(self, call_ms: float) -> int:
        """Untimed calls of a point whose calls take this long."""
        if self.is_warmup_fixed:
            return self.warmup
        return calls_that_fit(call_ms, budget_ms=self.budget_ms * WARMUP_SHARE, at_least=1, at_most=self.warmup)

    def timed_calls(self, call_ms: float) -> int:
        """Timed calls of a point whose calls take this long."""
        return self._timed(call_ms, self.budget_ms)

    def block_calls(self, call_ms: float) -> int:
        """Timed calls of one block of a point whose calls take this long."""
        return self._timed(call_ms, BLOCK_MS)

    def _timed(self, call_ms: float, budget_ms: float) -> int:
        if self.is_reps_fixed:
            return self.reps
        return calls_that_fit(call_ms, budget_ms=budget_ms, at_least=MIN_REPS, at_most=self.reps)


@dataclass(frozen=True, slots=True)
class Call:
    """
    Prepared work, and the phase to which readings taken under it belong.

    Attributes:
        flushed: whether the cache is emptied before each timed call; work on far more than it holds does so itself.
    """

    launch: Launch
    phase: str
    flushed: bool = True


@dataclass(frozen=True, slots=True)
class CallTimer:
    """
    A device with all that measuring on it needs.

    Attributes:
        device: what is measured.
        fill: what operands hold.
        pace: how often calls are repeated.
        log: where readings under load go.
        watch: ends the sweep when somebody else arrives; asked before each piece of work.
    """

    device: Device
    fill: Fill
    pace: Pace
    log: EvidenceLog
    watch: ForeignUseWatch

    def measure(self, call: Call, *, call_ms: float | None = None) -> Timing:
        """Time one piece of work in a single row, after its warm-up unless its length is known from one."""
        with self.log.phase(call.phase):
            call_ms = self.warmed_up_ms(call) if call_ms is None else call_ms
            return timing_of(self._repeat(call, self.pace.timed_calls(call_ms), call_ms))

    def repeated(self, call: Call, calls: int, call_ms: float) -> Timing:
        """Time so many calls of known length in a single row."""
        with self.log.phase(call.phase):
            return timing_of(self._repeat(call, calls, call_ms))

    def measure_blocks(self, calls: Sequence[Call], *, looks: Sequence[int]) -> list[BlockTiming]:
        """
        Time several pieces of work in alternating blocks, so that a slow drift meets them all alike.

        Every other round goes through them backwards. After each number of blocks in `looks` it stops if the interval
        of every piece is narrow enough, and after the last in any case.
        """
        lengths_ms = [self._ramped_up_ms(call) for call in calls]
        samples: list[list[tuple[float, ...]]] = [[] for _ in calls]
        forwards = list(range(len(calls)))
        for block in range(looks[-1]):
            for position in forwards if block % 2 == 0 else forwards[::-1]:
                samples[position].append(self._block(calls[position], lengths_ms[position]))
            if block + 1 in looks:
                timings = [timing_of_blocks(of_call) for of_call in samples]
                if all(timing.has_converged for timing in timings):
                    break
        return timings

    def warmed_up_ms(self, call: Call) -> float:
        """Warm up, and find out how long a call takes."""
        self.watch.check()
        self.device.run(call.launch, 1)
        call_ms = min(ms for _ in range(_PROBES) for ms in self.device.time(call.launch, 1, flushed=call.flushed))
        self._run(call.launch, self.pace.warmup_calls(call_ms) - 1 - _PROBES, call_ms)
        return call_ms

    def quick_ms(self, call: Call, calls: int) -> Timing:
        """Time so many calls after one untimed, without readings: for short work that the caller has many pieces of."""
        self.watch.check()
        self.device.run(call.launch, 1)
        return timing_of(self.device.time(call.launch, calls, flushed=call.flushed))

    @contextmanager
    def unbroken(self, call: Call, call_ms: float) -> Iterator[Iterator[tuple[int, float]]]:
        """Windows of work back to back for as long as they are asked for: calls and ms of each."""
        calls = max(1, int(WINDOW_MS / call_ms))
        ahead = max(1, int(QUEUE_MS / (calls * call_ms)))
        self.watch.check()
        # Closing waits for what is queued, whatever ended this.
        with closing(self.device.windows(call.launch, calls, ahead=ahead)) as windows:
            yield self._watched(windows, calls)

    def _watched(self, windows: Iterator[float], calls: int) -> Iterator[tuple[int, float]]:
        for window_ms in windows:
            yield calls, window_ms
            self.watch.check()

    def _ramped_up_ms(self, call: Call) -> float:
        call_ms = self.warmed_up_ms(call)
        self._run(call.launch, math.ceil(RAMP_UP_MS / call_ms), call_ms)
        return call_ms

    def _block(self, call: Call, call_ms: float) -> tuple[float, ...]:
        self.device.rest(REST_S)
        with self.log.phase(call.phase):
            self._run(call.launch, BLOCK_WARMUP, call_ms)
            return self._repeat(call, self.pace.block_calls(call_ms), call_ms)

    def _run(self, launch: Launch, calls: int, call_ms: float) -> None:
        if calls > 0:
            for length in queue_lengths(calls, call_ms=call_ms, limit_ms=QUEUE_MS):
                self.watch.check()
                self.device.run(launch, length)

    def _repeat(self, call: Call, calls: int, call_ms: float) -> tuple[float, ...]:
        queued_ms = call_ms + (self.device.description.flush_ms if call.flushed else 0.0)
        samples: list[float] = []
        for length in queue_lengths(calls, call_ms=queued_ms, limit_ms=QUEUE_MS):
            self.watch.check()
            samples += self.device.time(call.launch, length, flushed=call.flushed)
        return tuple(samples)
