"""The CPU of the host, measured under its own name: for nodes without a gpu, for demonstrations and for tests."""

from __future__ import annotations

import gc
import hashlib
import platform
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch

from fleetridge.quantities import MIB
from fleetridge.report import Environment, Gpu
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.device.gemm_variants import Fill, Gemm
from fleetridge_agent.device.interface import Copies, DeviceDescription, Launch, UnsupportedError
from fleetridge_agent.device.kernels import device_errors, flush_launch, gemm_operands, require_correct, stream_launches
from fleetridge_agent.readings.host import Host, host_readings, node_name
from fleetridge_agent.readings.optional_reading import model_of

_DEVICE = torch.device("cpu")

# Where the kernel names no cache; more than a desktop has, less than a large server.
_UNKNOWN_CACHE_BYTES = 64 * MIB

# A flush reads this many times the caches; least-recently-used caches forget what was there after one.
_CACHES_PER_FLUSH = 2

_FLUSH_PROBES = 3

# As many hexadecimal digits as a gpu's UUID has.
_UUID_DIGITS = 32

_NS_IN_MS = 1e-6

# Torch computes these on a CPU too, by way of another dtype.
_NEVER_ON_CPU = {
    "tf32": "a CPU has no TF32; measure float32",
    "float8_e4m3fn": "torch multiplies float8 on a CPU by way of another dtype; measure bfloat16 or float32",
}


class CpuDevice:
    """The cores that this process may use; satisfies `interface.Device`."""

    def __init__(self, host: Host, environ: Mapping[str, str]) -> None:
        self._host = host
        cores = host.usable_cores()
        # Torch starts a thread per core of the host, which in a container with a quota stand in each other's way.
        torch.set_num_threads(min(torch.get_num_threads(), cores))
        # The switches for float32 that a gpu has; a CPU with bfloat16 units has them too.
        torch.set_float32_matmul_precision("highest")
        cache_bytes = host.cache_bytes() or _UNKNOWN_CACHE_BYTES
        self._flush = flush_launch(_CACHES_PER_FLUSH * cache_bytes, _DEVICE)
        self._description = DeviceDescription(
            kind="cpu",
            gpu=_identity(host, environ, cores),
            environment=_environment(host, environ, cache_bytes),
            default_dtype="float32",
            cache_bytes=cache_bytes,
            flush_ms=min(_elapsed_ms(self._flush) for _ in range(_FLUSH_PROBES)),
            # Nobody keeps a CPU's clock apart from its load, so neither regime would be true.
            burst_regime="unspecified",
            # A call returns when its work is done: there is no queue in which a gap could arise.
            has_replay=False,
            has_link=False,
        )

    @property
    def description(self) -> DeviceDescription:
        """Identity, environment and traits."""
        return self._description

    @property
    def telemetry(self) -> None:
        """None: a CPU is measured without readings."""
        return

    def foreign_use(self) -> ForeignUse:
        """Nothing is known: a CPU always has other users."""
        return ForeignUse()

    def free_bytes(self) -> int:
        """Memory in bytes that can be taken without hurting others; 0 where the kernel does not say."""
        return self._host.free_bytes() or self._host.memory_bytes() or 0

    def require_supported(self, gemm: Gemm) -> None:
        """
        See that torch multiplies so on a CPU, and not by way of another dtype.

        Raises:
            UnsupportedError: it does not.
        """
        if gemm.variant.dtype in _NEVER_ON_CPU:
            raise UnsupportedError(_NEVER_ON_CPU[gemm.variant.dtype])

    @contextmanager
    def gemm(self, gemm: Gemm, fill: Fill) -> Iterator[Launch]:
        """Operands of one product."""
        self.require_supported(gemm)
        with device_errors():
            operands = gemm_operands(gemm, fill, _DEVICE)
        yield operands.launch

    def check_output(self, gemm: Gemm, fill: Fill) -> float:
        """Compare a tile of the product with float64."""
        self.require_supported(gemm)
        with device_errors():
            operands = gemm_operands(gemm, fill, _DEVICE)
            return require_correct(operands, operands.launch)

    @contextmanager
    def streams(self, buffer_bytes: int, fill: Fill) -> Iterator[Mapping[str, Launch]]:
        """Stream kernels over three buffers."""
        with device_errors():
            launches = stream_launches(buffer_bytes, fill, _DEVICE)
        yield launches

    def copies(self, gemm: Gemm, fill: Fill, count: int) -> AbstractContextManager[Copies]:
        """
        Refuse: calls are timed one by one.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"a CPU replays no batches, so {count} copies of {gemm} ({fill.kind}) serve nothing")

    def links(self, buffer_bytes: int) -> AbstractContextManager[Mapping[str, Launch]]:
        """
        Refuse: a CPU works in the host's memory.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"a CPU has no link over which to copy {buffer_bytes} bytes")

    def run(self, launch: Launch, calls: int) -> None:
        """Make untimed calls."""
        with device_errors():
            for _ in range(calls):
                launch()

    def time(self, launch: Launch, calls: int, *, flushed: bool = True) -> tuple[float, ...]:
        """Time of each call in ms by the wall clock, as a call returns when its work is done."""
        samples = []
        with device_errors():
            for _ in range(calls):
                if flushed:
                    self._flush()
                samples.append(_elapsed_ms(launch))
        return tuple(samples)

    def windows(self, launch: Launch, calls: int, *, ahead: int) -> Generator[float, None, None]:
        """Time in ms of each window of calls by the wall clock; nothing can be queued ahead."""
        del ahead
        while True:
            with device_errors():
                elapsed_ms = _elapsed_ms(lambda: [launch() for _ in range(calls)])
            yield elapsed_ms

    def rest(self, seconds: float) -> None:
        """Go on at once: the clock of a CPU follows its load within microseconds, and its other users do not rest."""

    def release(self) -> None:
        """Nothing is held for reuse but what waits for the garbage collector."""
        gc.collect()


def _elapsed_ms(launch: Launch) -> float:
    start_ns = time.perf_counter_ns()
    launch()
    return (time.perf_counter_ns() - start_ns) * _NS_IN_MS


def _identity(host: Host, environ: Mapping[str, str], cores: int) -> Gpu:
    values = {
        "uuid": _uuid(host, environ),
        "device": host.cpu_model() or f"{platform.machine()} CPU",
        "architecture": platform.machine(),
        "memory_bytes": host.memory_bytes(),
        "sm_count": cores,
    }
    return model_of(Gpu, values)


def _uuid(host: Host, environ: Mapping[str, str]) -> str:
    """In a container the node's name stands in: a machine id that belongs to an image is the same on every node."""
    machine = None if host.is_container(environ) else host.machine_id()
    return f"CPU-{hashlib.sha256((machine or node_name(environ)).encode()).hexdigest()[:_UUID_DIGITS]}"


def _environment(host: Host, environ: Mapping[str, str], cache_bytes: int) -> Environment:
    values = {
        **host_readings(host, environ),
        "torch": torch.__version__,
        "runtime": "cpu",
        "l2_bytes": cache_bytes,
        "allow_tf32": False,
    }
    return model_of(Environment, values)
