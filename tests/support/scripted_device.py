"""A device that does what a test says, and keeps a record of what was asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fleetridge.report import Environment, Gpu
from fleetridge.roofline import gemm_flops
from fleetridge_agent.device.contract import (
    DeviceDescription,
    DeviceFaultError,
    Fill,
    ForeignUse,
    Launch,
    OutOfDeviceMemoryError,
    Telemetry,
    UnsupportedError,
)
from fleetridge_agent.device.product import Gemm
from fleetridge_agent.measure.stream import STREAM_BUFFERS

GIB = 1024**3
MIB = 1024**2

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
    }
    return DeviceDescription(**{**values, **changes})  # type: ignore[arg-type] # checked by the tests that use it


@dataclass(frozen=True, slots=True)
class ScriptedLaunch:
    """Prepared work; calling it does nothing."""

    work: Work
    bytes: int

    def __call__(self) -> None:
        """Do nothing."""


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
        allocations, queues, rests, events: what was asked of it.
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
    foreign: ForeignUse = field(default_factory=ForeignUse)
    allocations: list[Work | int] = field(default_factory=list)
    fills: set[Fill] = field(default_factory=set)
    queues: list[tuple[Work, float]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    _given: dict[Work, int] = field(default_factory=dict)

    def foreign_use(self) -> ForeignUse:
        """What the test says."""
        return self.foreign

    def free_bytes(self) -> int:
        """What the test says."""
        return self.free

    @contextmanager
    def gemm(self, gemm: Gemm, fill: Fill) -> Iterator[Launch]:
        """Work of one product, unless the test says otherwise."""
        if gemm.product.dtype in self.unsupported:
            raise UnsupportedError(self.unsupported[gemm.product.dtype])
        self._allocate(gemm, fill)
        yield ScriptedLaunch(gemm, gemm.bytes)

    def check_output(self, gemm: Gemm, fill: Fill) -> float:
        """Right, unless the test says otherwise."""
        self.fills.add(fill)
        if gemm.product.dtype in self.unsupported:
            raise UnsupportedError(self.unsupported[gemm.product.dtype])
        if gemm.product.dtype in self.wrong:
            raise DeviceFaultError(f"{gemm} is wrong", reason="wrong_output")
        return 0.0

    @contextmanager
    def streams(self, buffer_bytes: int, fill: Fill) -> Iterator[Mapping[str, Launch]]:
        """Work of every kernel, unless the test says otherwise."""
        self._allocate(buffer_bytes, fill)
        if self.largest_buffer_bytes is not None and buffer_bytes > self.largest_buffer_bytes:
            raise OutOfDeviceMemoryError("out of memory")
        yield {kernel: ScriptedLaunch(kernel, number * buffer_bytes) for kernel, number in STREAM_BUFFERS.items()}

    def run(self, launch: Launch, calls: int) -> None:
        """Count the calls as warm-up."""
        work = self._work(launch)
        self.events.append(f"run {work.work} {calls}")
        self.queues.append((work.work, calls * self._rate_ms(work)))

    def time(self, launch: Launch, calls: int) -> tuple[float, ...]:
        """The next times of this work."""
        work = self._work(launch)
        self.events.append(f"time {work.work} {calls}")
        self.queues.append((work.work, calls * (self._rate_ms(work) + self.description.flush_ms)))
        return tuple(self._next_ms(work) for _ in range(calls))

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
        if isinstance(launch.work, str):
            return launch.bytes / self.beta_gbps * 1e-6
        flops = gemm_flops(launch.work.m, launch.work.k, launch.work.n)
        return max(flops / self.pi_tflops * 1e-9, launch.bytes / self.beta_gbps * 1e-6)

    def _next_ms(self, launch: ScriptedLaunch) -> float:
        script = self.samples.get(launch.work)
        if script is None:
            return self._rate_ms(launch)
        position = self._given.get(launch.work, 0)
        self._given[launch.work] = position + 1
        return script[min(position, len(script) - 1)]
