from __future__ import annotations

import threading
from dataclasses import dataclass, field

from fleetridge_agent.readings.evidence import EvidenceLog, Sample


@dataclass
class _Telemetry:
    """Gives the samples of a test in turn, and says when it has given all of them."""

    samples: list[Sample]
    counters: list[dict[str, float]] = field(default_factory=list)
    given: threading.Event = field(default_factory=threading.Event)
    position: int = 0

    def sample(self) -> Sample:
        sample = self.samples[min(self.position, len(self.samples) - 1)]
        self.position += 1
        if self.position >= len(self.samples):
            self.given.set()
        return sample

    def throttle_ms(self) -> dict[str, float]:
        return self.counters.pop(0) if self.counters else {}


def _log_of(telemetry: _Telemetry, name: str = "reference bfloat16") -> EvidenceLog:
    log = EvidenceLog(telemetry)
    with log.phase(name):
        assert telemetry.given.wait(timeout=30)
    return log


def test_a_phase_keeps_medians_of_rates_and_the_highest_temperature() -> None:
    """Clock, power and temperature of the time in which something was timed."""
    clocks = ((1980.0, 400.0, 50.0), (1500.0, 690.0, 61.0), (1480.0, 695.0, 66.0))
    telemetry = _Telemetry(
        [Sample(sm_clock_mhz=clock, power_w=power, temperature_c=hot) for clock, power, hot in clocks]
    )
    log = EvidenceLog(telemetry)
    for _ in clocks:
        with log.phase("sustained bfloat16"):
            pass

    phase = log.of("sustained bfloat16")

    assert phase.samples == 3
    assert (phase.sm_clock_mhz, phase.sm_clock_min_mhz, phase.sm_clock_max_mhz) == (1500.0, 1480.0, 1980.0)
    assert (phase.power_w, phase.power_max_w, phase.temperature_c) == (690.0, 695.0, 66.0)


def test_every_throttle_reason_that_was_seen_is_kept() -> None:
    """Once each, whichever moments they were seen in."""
    samples = [Sample(throttle_reasons=frozenset(reasons)) for reasons in ((), ("sw_power_cap",), ("hw_slowdown",))]
    telemetry = _Telemetry(samples)

    assert _log_of(telemetry).of("reference bfloat16").throttle_reasons == ("hw_slowdown", "sw_power_cap")


def test_no_throttle_reason_is_not_the_same_as_none_known() -> None:
    """An empty list where the driver saw nothing; null where it does not say."""
    unthrottled = _log_of(_Telemetry([Sample(throttle_reasons=frozenset())]))
    silent = _log_of(_Telemetry([Sample()]))

    assert unthrottled.of("reference bfloat16").throttle_reasons == ()
    assert silent.of("reference bfloat16").throttle_reasons is None


def test_throttle_counters_grow_within_the_phase_only() -> None:
    """What had accumulated before, and between two visits to the phase, does not count."""
    counters = [
        {"sw_power_cap": 60_000.0},
        {"sw_power_cap": 60_005.0},
        {"sw_power_cap": 90_000.0},
        {"sw_power_cap": 90_002.0},
    ]
    log = EvidenceLog(_Telemetry([Sample()], counters))
    for _ in range(2):
        with log.phase("reference bfloat16"):
            pass

    assert log.of("reference bfloat16").throttle_ms == {"sw_power_cap": 7.0}


def test_readings_that_are_missing_are_null_and_not_zero() -> None:
    """A driver that knows the clock only says nothing of power."""
    phase = _log_of(_Telemetry([Sample(sm_clock_mhz=1980.0)])).of("reference bfloat16")

    assert phase.sm_clock_mhz == 1980.0
    assert phase.power_w is None
    assert phase.memory_temperature_c is None
    assert phase.throttle_ms is None


def test_a_device_without_telemetry_has_no_phases() -> None:
    """Nothing is made up."""
    log = EvidenceLog(None)
    with log.phase("reference float32"):
        pass

    assert log.phases() == ()
    assert log.of("reference float32").sm_clock_mhz is None


def test_reading_stops_with_the_phase() -> None:
    """No thread is left behind that would read on into the next measurement."""
    telemetry = _Telemetry([Sample(sm_clock_mhz=1.0)])
    _log_of(telemetry)

    assert not [thread for thread in threading.enumerate() if thread.name == "evidence"]
