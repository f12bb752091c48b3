"""Readings taken while a device is timed: under which clock, power and temperature a rate came about."""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from fleetridge.report import PhaseEvidence

# A reading takes the driver a millisecond or so and its sensors are refreshed every 10 to 100 ms: more often shows
# nothing new, and less often misses short phases.
_INTERVAL_S = 0.010

# The first reading comes when the work has begun: at the very start it would show the rest before it.
_FIRST_AFTER_S = 0.004

_SAMPLER_NAME = "evidence"


@dataclass(frozen=True, slots=True)
class Sample:
    """
    Readings of one moment; None for each that the driver does not have.

    Attributes:
        throttle_reasons: names of the reasons that hold the clock down now, None where the driver does not say.
    """

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    throttle_reasons: frozenset[str] | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


class Telemetry(Protocol):
    """What can be read of a device while it works, without disturbing it."""

    def sample(self) -> Sample:
        """Readings of this moment."""
        ...

    def throttle_ms(self) -> dict[str, float]:
        """Time that each throttle reason has held so far, by the driver's own counters; empty where it has none."""
        ...


class EvidenceLog:
    """
    Collects readings by phase.

    A phase may be entered many times, as blocks of several shapes alternate; its readings add up. Between phases
    nothing is read, so that rests do not enter the figures.
    """

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry
        self._samples: dict[str, list[Sample]] = defaultdict(list)
        self._throttle_ms: dict[str, dict[str, float]] = defaultdict(dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Read in a thread of its own while the context is open."""
        if self._telemetry is None:
            yield
            return
        before_ms = self._telemetry.throttle_ms()
        is_over = threading.Event()
        sampler = threading.Thread(
            target=_sample_until, args=(is_over, self._telemetry, self._samples[name]), name=_SAMPLER_NAME, daemon=True
        )
        sampler.start()
        try:
            yield
        finally:
            is_over.set()
            sampler.join()
            self._add_throttle(name, before_ms, self._telemetry.throttle_ms())

    def of(self, name: str) -> PhaseEvidence:
        """Readings of one phase; all null where there were none."""
        return _summary(name, self._samples.get(name, ()), self._throttle_ms.get(name, {}))

    def phases(self) -> tuple[PhaseEvidence, ...]:
        """Readings of every phase that has any, in the order in which the phases were first entered."""
        return tuple(self.of(name) for name, samples in self._samples.items() if samples)

    def _add_throttle(self, name: str, before_ms: dict[str, float], after_ms: dict[str, float]) -> None:
        total_ms = self._throttle_ms[name]
        for reason in before_ms.keys() & after_ms.keys():
            # A counter that a reset of the driver set back has not run backwards.
            grown_ms = max(0.0, after_ms[reason] - before_ms[reason])
            total_ms[reason] = total_ms.get(reason, 0.0) + grown_ms


def _sample_until(is_over: threading.Event, telemetry: Telemetry, samples: list[Sample]) -> None:
    is_over.wait(_FIRST_AFTER_S)
    # Also where the work was over sooner: nothing else tells of it.
    samples.append(telemetry.sample())
    while not is_over.wait(_INTERVAL_S):
        sample = telemetry.sample()
        # What was read when the work had already ended does not belong to it.
        if not is_over.is_set():
            samples.append(sample)


def _summary(name: str, samples: Sequence[Sample], throttle_ms: dict[str, float]) -> PhaseEvidence:
    clocks_mhz = _present([sample.sm_clock_mhz for sample in samples])
    powers_w = _present([sample.power_w for sample in samples])
    links = [sample for sample in samples if sample.pcie_generation is not None]
    return PhaseEvidence(
        phase=name,
        samples=len(samples),
        sm_clock_mhz=_median(clocks_mhz),
        sm_clock_min_mhz=min(clocks_mhz, default=None),
        sm_clock_max_mhz=max(clocks_mhz, default=None),
        memory_clock_mhz=_median(_present([sample.memory_clock_mhz for sample in samples])),
        power_w=_median(powers_w),
        power_max_w=max(powers_w, default=None),
        temperature_c=max(_present([sample.temperature_c for sample in samples]), default=None),
        memory_temperature_c=max(_present([sample.memory_temperature_c for sample in samples]), default=None),
        throttle_reasons=_reasons(samples),
        throttle_ms=dict(throttle_ms) or None,
        pcie_generation=links[-1].pcie_generation if links else None,
        pcie_width=links[-1].pcie_width if links else None,
    )


def _present(readings: Sequence[float | None]) -> list[float]:
    return [reading for reading in readings if reading is not None]


def _median(readings: Sequence[float]) -> float | None:
    return statistics.median(readings) if readings else None


def _reasons(samples: Sequence[Sample]) -> tuple[str, ...] | None:
    """Every reason seen at least once; None where the driver never said."""
    seen = [sample.throttle_reasons for sample in samples if sample.throttle_reasons is not None]
    return tuple(sorted(frozenset().union(*seen))) if seen else None
