"""
The interface of a device: all that a sweep may ask of the silicon. `cpu` and `cuda` implement it.

    SweepError                      measuring broke off (errors.py)
    ├── OutOfDeviceMemoryError      this shape or buffer does not fit; smaller ones may
    ├── UnsupportedError            this device or this torch cannot multiply so; others may work
    └── DeviceFaultError            the device broke or lied; nothing more can be measured in this process
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from fleetridge.report import Environment, Evidence, Gpu, Regime
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.device.gemm_variants import Fill, Gemm
from fleetridge_agent.errors import SweepError
from fleetridge_agent.measurement_protocol import DeviceKind
from fleetridge_agent.readings.evidence import Telemetry

Launch = Callable[[], object]
"""Starts one call of prepared work and returns; on a gpu before the call has run."""


class OutOfDeviceMemoryError(SweepError):
    """The operands do not fit into the memory that is free."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="out_of_memory")


class UnsupportedError(SweepError):
    """The chip or the installed torch has no such product; the message says which and why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="unsupported")


class DeviceFaultError(SweepError):
    """
    The device failed in a way after which its context is lost, or gave a wrong product.

    Attributes:
        reason: such as `device_fault`, `ecc_uncorrectable` or `wrong_output`.
    """

    def __init__(self, message: str, *, reason: str = "device_fault") -> None:
        super().__init__(message, reason=reason)


class Copies(Protocol):
    """Several copies of the operands of one product, held for batches of calls that leave no gap between them."""

    def batch(self, rows: int, which: Sequence[int], calls: int) -> Launch:
        """
        One launch of so many calls with the first `rows` rows of M, each with the next of these copies.

        Raises:
            UnsupportedError: calls of this product cannot be made in batches.
        """
        ...


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """
    What a device says of itself, once, before anything is measured.

    Attributes:
        gpu: identity; the CPU's own where a CPU is measured.
        evidence: health readings that do not belong to a phase, such as memory repairs.
        default_dtype: what is multiplied unless the user chooses.
        cache_bytes: of the last-level cache.
        flush_ms: time that emptying that cache takes before each timed call.
        burst_regime: regime of short measurements with rests between them; where it is `unspecified` no regimes can be
            told apart, and none is sustained.
        has_replay: whether calls can be replayed in batches, and have to be, as launching one takes the host time.
        has_link: whether the device has memory of its own, behind a link to the host.
    """

    kind: DeviceKind
    gpu: Gpu
    environment: Environment
    default_dtype: str
    cache_bytes: int
    flush_ms: float
    burst_regime: Regime
    has_replay: bool
    has_link: bool
    evidence: Evidence = field(default_factory=Evidence)


class Device(Protocol):
    """
    A device under measurement.

    Every method may raise DeviceFaultError; those that allocate, also OutOfDeviceMemoryError and UnsupportedError.
    """

    @property
    def description(self) -> DeviceDescription:
        """Identity, environment and traits."""
        ...

    @property
    def telemetry(self) -> Telemetry | None:
        """Readings under load, None where there are none."""
        ...

    def foreign_use(self) -> ForeignUse:
        """Who else has used the device since before this process touched it."""
        ...

    def free_bytes(self) -> int:
        """Memory in bytes that could be allocated now."""
        ...

    def require_supported(self, gemm: Gemm) -> None:
        """
        See that the device can make a product, as far as that is known without trying.

        Raises:
            UnsupportedError: it cannot.
        """
        ...

    def gemm(self, gemm: Gemm, fill: Fill) -> AbstractContextManager[Launch]:
        """
        Operands of one product, held while the context is open.

        The weights lie as [N,K] and are multiplied transposed, as inference engines keep them.
        """
        ...

    def check_output(self, gemm: Gemm, fill: Fill) -> float:
        """
        Multiply once and compare a tile of the product with float64.

        Returns:
            The largest difference over the largest value of the tile.

        Raises:
            DeviceFaultError: with reason `wrong_output`, when they differ by more than the dtype allows.
        """
        ...

    def streams(self, buffer_bytes: int, fill: Fill) -> AbstractContextManager[Mapping[str, Launch]]:
        """Three buffers of this size each, held while the context is open, and every stream kernel over them."""
        ...

    def copies(self, gemm: Gemm, fill: Fill, count: int) -> AbstractContextManager[Copies]:
        """So many copies of the operands of one product, held while the context is open; only with `has_replay`."""
        ...

    def links(self, buffer_bytes: int) -> AbstractContextManager[Mapping[str, Launch]]:
        """Copies `h2d` and `d2h` between pinned memory of the host and the device's own; only with `has_link`."""
        ...

    def run(self, launch: Launch, calls: int) -> None:
        """Make untimed calls and wait for them."""
        ...

    def time(self, launch: Launch, calls: int, *, flushed: bool = True) -> tuple[float, ...]:
        """
        Time of each call in ms, the last-level cache emptied before each unless `flushed` is False.

        All calls are queued before the device is waited for, so that no gap of the host enters a time.
        """
        ...

    def windows(self, launch: Launch, calls: int, *, ahead: int) -> Generator[float, None, None]:
        """
        Time in ms of each window of so many calls, for as long as it is asked.

        The calls go back to back: up to `ahead` windows are queued at any time. Closing the generator waits for them.
        """
        ...

    def rest(self, seconds: float) -> None:
        """Leave the device idle, so that clock and power recover."""
        ...

    def release(self) -> None:
        """Give memory back that is held for reuse."""
        ...
