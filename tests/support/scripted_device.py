"""A device that does what a test says, and keeps a record of what was asked of it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from fleetridge.arithmetic_intensity import gemm_flops
from fleetridge.report import Environment, Gpu
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.device.gemm_variants import Fill, Gemm
from fleetridge_agent.device.interface import (
    Copies,
    DeviceDescription,
    DeviceFaultError,
    Launch,
    OutOfDeviceMemoryError,
    UnsupportedError,
)
from fleetridge_agent.readings.evidence import Telemetry
from fleetridge_agent.sweep.streams import STREAM_BUFFERS

GIB = 1024**3
MIB = 1024**2

_LINK_GBPS = 55.0

Work = Gemm | str


def described(**changes: object) -> DeviceDescription:
    """An H200 by default, changed where a test needs it."""
    values: dict[str, object] = {
        "kind": "cuda",
        "gpu": Gpu(uuid="GPU-1", device="NVIDIA H200", architecture="sm_90", memory_bytes=141 * GIB, sm_count=132),
        "environment": Environment(torch="2.11.0", l2_bytes=60 * MIB, allow_tf32=False),
        "default_dtype": "bfloat16",
        "cache_bytes": 60 * MIB,
        "flush_ms": 0.06,
        "burst_regime": "burst",
        "has_replay": True,
        "has_link": True,
    }
    return DeviceDescription(**{**values, **changes})  # type: ignore[arg-type] # checked by the tests that use it


@dataclass(frozen=True, slots=True)
class ScriptedLaunch:
    """
    Prepared work; calling it does nothing.

    Attributes:
        calls: calls of the work in one launch.
        factor: by which it takes longer than the device's rate.
    """

    work: Work
    bytes: int
    calls: int = 1
    factor: float = 1.0

    def __call__(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class ScriptedCopies:
    """Copies of a product's operands; some may lie in slow places."""

    gemm: Gemm
    placements: Sequence[float]

    def batch(self, rows: int, which: Sequence[int], calls: int) -> Launch:
        """As slow as the mean of its copies."""
        work = replace(self.gemm, m=rows)
        factors = [self.placements[number % len(self.placements)] for number in which]
        return ScriptedLaunch(work, work.bytes, calls, sum(factors) / len(factors))


@dataclass(slots=True)
class ScriptedDevice:
    """
    A device under a roofline of its own, with whatever trouble a test asks for.

    Attributes:
        pi_tflops, beta_gbps: at which everything runs that `samples` does not mention.
        samples: times in ms of products and stream kernels, given out in this order; the last one stays.
        out_of_memory_at: allocations that fail, counted from 1.
        largest_buffer_bytes: stream buffers above it do not fit.
        unsupported: reasons by dtype.
        fault_at: allocation at which the device breaks.
        wrong: dtypes that it multiplies wrongly.
        placements: factors by which products take longer with one copy of their operands and the next.
        foreign: who else uses it; `arrives_after` that many queues of work somebody else does.
        course: rates in TFLOP/s under unbroken load, each with the seconds for which it holds; the last one stays.
        allocations, queues, events: what was asked of it.
    """

    description: DeviceDescription = field(default_factory=described)
    telemetry: Telemetry | None = None
    pi_tflops: float = 800.0
    beta_gbps: float = 4400.0
    samples: dict[Work, Sequence[float]] = field(default_factory=dict)
    free: int = 140 * GIB
    out_of_memory_at: frozenset[int] = frozenset()
    largest_buffer_bytes: int | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict)
    fault_at: int | None = None
    wrong: frozenset[str] = frozenset()
    placements: Sequence[float] = (1.0,)
    course: Sequence[tuple[float, float]] = ()
    foreign: ForeignUse = field(default_factory=ForeignUse)
    arrives_after: int | None = None
    allocations: list[Work | int] = field(default_factory=list)
    fills: set[Fill] = field(default_factory=set)
    queues: list[tuple[Work, float]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    _given: dict[Work, int] = field(default_factory=dict)

    def foreign_use(self) -> ForeignUse:
        """What the test says."""
        if self.arrives_after is not None and len(self.queues) >= self.arrives_after:
            return ForeignUse(processes=1, bytes=GIB, signals=("processes",))
        return self.foreign

    def free_bytes(self) -> int:
        """What the test says."""
        return self.free

    def require_supported(self, gemm: Gemm) -> None:
        """What the test says."""
        if gemm.variant.dtype in self.unsupported:
            raise UnsupportedError(self.unsupported[gemm.variant.dtype])

    @contextmanager
    def gemm(self, gemm: Gemm, fill: Fill) -> Iterator[Launch]:
        """Work of one product, unless the test says otherwise."""
        self.require_supported(gemm)
        self._allocate(gemm, fill)
        yield ScriptedLaunch(gemm, gemm.bytes)

    def check_output(self, gemm: Gemm, fill: Fill) -> float:
        """Right, unless the test says otherwise."""
        self.fills.add(fill)
        self.require_supported(gemm)
        if gemm.variant.dtype in self.wrong:
            raise DeviceFaultError(f"{gemm} is wrong", reason="wrong_output")
        return 0.0

    @contextmanager
    def streams(self, buffer_bytes: int, fill: Fill) -> Iterator[Mapping[str, Launch]]:
        """Work of every kernel, unless the test says otherwise."""
        self._allocate(buffer_bytes, fill)
        if self.largest_buffer_bytes is not None and buffer_bytes > self.largest_buffer_bytes:
            raise OutOfDeviceMemoryError("out of memory")
        yield {kernel: ScriptedLaunch(kernel, number * buffer_bytes) for kernel, number in STREAM_BUFFERS.items()}

    @contextmanager
    def copies(self, gemm: Gemm, fill: Fill, count: int) -> Iterator[Copies]:
        """Copies in good and bad places, as the test says."""
        self.require_supported(gemm)
        self._allocate(gemm, fill)
        self.events.append(f"copies {gemm} {count}")
        yield ScriptedCopies(gemm, self.placements)

    @contextmanager
    def links(self, buffer_bytes: int) -> Iterator[Mapping[str, Launch]]:
        """Copies at 55 GB/s."""
        yield {kernel: ScriptedLaunch(kernel, buffer_bytes) for kernel in ("h2d", "d2h")}

    def run(self, launch: Launch, calls: int) -> None:
        """Count the calls as warm-up."""
        work = self._work(launch)
        self.events.append(f"run {work.work} {calls}")
        self.queues.append((work.work, calls * self._rate_ms(work)))

    def time(self, launch: Launch, calls: int, *, flushed: bool = True) -> tuple[float, ...]:
        """The next times of this work."""
        work = self._work(launch)
        self.events.append(f"time {work.work} {calls}")
        flush_ms = self.description.flush_ms if flushed else 0.0
        self.queues.append((work.work, calls * (self._rate_ms(work) + flush_ms)))
        return tuple(self._next_ms(work) for _ in range(calls))

    def windows(self, launch: Launch, calls: int, *, ahead: int) -> Generator[float, None, None]:
        """Times of windows along the course that the test gives, else at the usual rate."""
        work = self._work(launch)
        elapsed_ms = 0.0
        self.events.append(f"windows {work.work} {calls}")
        try:
            while True:
                window_ms = calls * self._rate_ms(work) * self._slowness_at(elapsed_ms / 1000.0)
                self.queues.append((work.work, ahead * window_ms))
                elapsed_ms += window_ms
                yield window_ms
        finally:
            self.events.append("windows closed")

    def _slowness_at(self, elapsed_s: float) -> float:
        """Usual rate over that of the course."""
        until_s = 0.0
        for tflops, seconds in self.course:
            until_s += seconds
            if elapsed_s < until_s:
                return self.pi_tflops / tflops
        return self.pi_tflops / self.course[-1][0] if self.course else 1.0

    def rest(self, seconds: float) -> None:
        """Rest no longer than it takes to say so."""
        self.events.append(f"rest {seconds:g}")

    def release(self) -> None:
        """Say so."""
        self.events.append("release")

    def _allocate(self, what: Work | int, fill: Fill) -> None:
        self.allocations.append(what)
        self.fills.add(fill)
        if len(self.allocations) in self.out_of_memory_at:
            raise OutOfDeviceMemoryError("out of memory")
        if len(self.allocations) == self.fault_at:
            raise DeviceFaultError("CUDA error: uncorrectable ECC error encountered", reason="ecc_uncorrectable")

    def _work(self, launch: Launch) -> ScriptedLaunch:
        if not isinstance(launch, ScriptedLaunch):
            raise TypeError("this launch was not prepared by a scripted device")
        return launch

    def _rate_ms(self, launch: ScriptedLaunch) -> float:
        return launch.calls * launch.factor * self._call_ms(launch)

    def _call_ms(self, launch: ScriptedLaunch) -> float:
        if isinstance(launch.work, str):
            gbps = _LINK_GBPS if launch.work in {"h2d", "d2h"} else self.beta_gbps
            return launch.bytes / gbps * 1e-6
        flops = gemm_flops(launch.work.m, launch.work.k, launch.work.n)
        return max(flops / self.pi_tflops * 1e-9, launch.bytes / self.beta_gbps * 1e-6)

    def _next_ms(self, launch: ScriptedLaunch) -> float:
        script = self.samples.get(launch.work)
        if script is None:
            return self._rate_ms(launch)
        position = self._given.get(launch.work, 0)
        self._given[launch.work] = position + 1
        return launch.calls * launch.factor * script[min(position, len(script) - 1)]
