"""Repeated calls on a device: warm-up, queues of bounded length, and blocks with a rest before each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge_agent.device.contract import Device, Fill, Launch
from fleetridge_agent.measure.evidence import EvidenceLog
from fleetridge_agent.measure.pace import Pace
from fleetridge_agent.measure.protocol import BLOCK_WARMUP, QUEUE_MS, RAMP_UP_MS, REST_S
from fleetridge_agent.measure.timing import BlockTiming, Timing, queue_lengths, timing_of, timing_of_blocks

# Timed calls that find out how long a call takes; the fastest counts, so that one wild sample does not matter.
_PROBES = 2


@dataclass(frozen=True, slots=True)
class Call:
    """Prepared work, and the phase to which readings taken under it belong."""

    launch: Launch
    phase: str


@dataclass(frozen=True, slots=True)
class Workbench:
    """
    A device with all that measuring on it needs.

    Attributes:
        device: what is measured.
        fill: what operands hold.
        pace: how often calls are repeated.
        log: where readings under load go.
    """

    device: Device
    fill: Fill
    pace: Pace
    log: EvidenceLog

    def measure(self, call: Call) -> Timing:
        """Time one piece of work in a single row, after its warm-up."""
        with self.log.phase(call.phase):
            call_ms = self._warmed_up_ms(call.launch)
            return timing_of(self._repeat(call.launch, self.pace.timed_calls(call_ms), call_ms))

    def measure_blocks(self, calls: Sequence[Call], *, blocks: int) -> list[BlockTiming]:
        """
        Time several pieces of work in alternating blocks, so that a slow drift meets them all alike.

        Every other round goes through them backwards.
        """
        lengths_ms = [self._ramped_up_ms(call) for call in calls]
        samples: list[list[tuple[float, ...]]] = [[] for _ in calls]
        forwards = list(range(len(calls)))
        for block in range(blocks):
            for position in forwards if block % 2 == 0 else forwards[::-1]:
                samples[position].append(self._block(calls[position], lengths_ms[position], blocks))
        return [timing_of_blocks(of_call) for of_call in samples]

    def _ramped_up_ms(self, call: Call) -> float:
        call_ms = self._warmed_up_ms(call.launch)
        self._run(call.launch, math.ceil(RAMP_UP_MS / call_ms), call_ms)
        return call_ms

    def _block(self, call: Call, call_ms: float, blocks: int) -> tuple[float, ...]:
        self.device.rest(REST_S)
        with self.log.phase(call.phase):
            self._run(call.launch, BLOCK_WARMUP, call_ms)
            return self._repeat(call.launch, self.pace.timed_calls(call_ms, blocks=blocks), call_ms)

    def _warmed_up_ms(self, launch: Launch) -> float:
        """Warm up, and find out how long a call takes."""
        self.device.run(launch, 1)
        call_ms = min(ms for _ in range(_PROBES) for ms in self.device.time(launch, 1))
        self._run(launch, self.pace.warmup_calls(call_ms) - 1 - _PROBES, call_ms)
        return call_ms

    def _run(self, launch: Launch, calls: int, call_ms: float) -> None:
        if calls > 0:
            for length in queue_lengths(calls, call_ms=call_ms, limit_ms=QUEUE_MS):
                self.device.run(launch, length)

    def _repeat(self, launch: Launch, calls: int, call_ms: float) -> tuple[float, ...]:
        flushed_ms = call_ms + self.device.description.flush_ms
        samples: list[float] = []
        for length in queue_lengths(calls, call_ms=flushed_ms, limit_ms=QUEUE_MS):
            samples += self.device.time(launch, length)
        return tuple(samples)
