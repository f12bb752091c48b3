"""The rate that a device keeps up under unbroken load, when its power governor has settled."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetridge_agent.device.gemm_variants import Gemm
from fleetridge_agent.measurement_protocol import (
    FALLING,
    SUSTAINED_EXTRA_S,
    SUSTAINED_RAMP_S,
    SUSTAINED_S,
    T_OF_SUSTAINED,
)
from fleetridge_agent.sweep.call_timer import Call, CallTimer
from fleetridge_agent.sweep.gemm import MeasuredGemm, gemm_point, require_memory
from fleetridge_agent.sweep.timing_statistics import BlockTiming, Interval, Timing

_S_IN_MS = 1000.0

Windows = Iterator[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class _Second:
    """One second of work, to the end of a window."""

    calls: int
    ms: float

    @property
    def call_ms(self) -> float:
        """Mean time of one call within this second."""
        return self.ms / self.calls


def measure_sustained(timer: CallTimer, gemm: Gemm, *, label: str, phase: str) -> MeasuredGemm:
    """
    Measure a product under unbroken load.

    The seconds after the ramp are followed until the rate no longer falls, and the last of them count: a gpu that
    drops after a while is given with what it dropped to, and its first second is kept to show the fall.
    """
    require_memory(timer, gemm.bytes)
    with timer.device.gemm(gemm, timer.fill) as launch:
        call = Call(launch, phase)
        call_ms = timer.warmed_up_ms(call)
        with timer.unbroken(call, call_ms) as windows:
            _work_for(windows, SUSTAINED_RAMP_S * _S_IN_MS)
            with timer.log.phase(phase):
                seconds = _followed(windows)
    timing = _timing(seconds)
    readings = timer.log.of(phase)
    point = gemm_point(
        gemm,
        timing.whole,
        label=label,
        regime="sustained",
        sm_clock_mhz=readings.sm_clock_mhz,
        power_w=readings.power_w,
    )
    return MeasuredGemm(point, timing)


def _followed(windows: Windows) -> list[_Second]:
    seconds: list[_Second] = []
    while len(seconds) < SUSTAINED_S or (_is_falling(seconds) and len(seconds) < SUSTAINED_S + SUSTAINED_EXTRA_S):
        seconds.append(_work_for(windows, _S_IN_MS))
    return seconds


def _is_falling(seconds: Sequence[_Second]) -> bool:
    """Whether the rate falls within the seconds that would count now."""
    first, last = seconds[-SUSTAINED_S], seconds[-1]
    return first.call_ms / last.call_ms < 1 - FALLING


def _work_for(windows: Windows, wanted_ms: float) -> _Second:
    calls, ms = 0, 0.0
    for window_calls, window_ms in windows:
        calls += window_calls
        ms += window_ms
        if ms >= wanted_ms:
            break
    return _Second(calls, ms)


def _timing(seconds: Sequence[_Second]) -> BlockTiming:
    counted = seconds[-SUSTAINED_S:]
    calls = sum(second.calls for second in counted)
    mean_ms = sum(second.ms for second in counted) / calls
    times_ms = [second.call_ms for second in counted]
    half_ms = T_OF_SUSTAINED * statistics.stdev(times_ms) / len(times_ms) ** 0.5
    return BlockTiming(
        whole=Timing(mean_ms, (max(times_ms) - min(times_ms)) / mean_ms, calls),
        first_ms=seconds[0].call_ms,
        last_ms=seconds[-1].call_ms,
        interval=Interval(mean_ms - half_ms, mean_ms + half_ms),
    )
