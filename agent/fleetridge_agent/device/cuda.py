"""A gpu under CUDA or ROCm builds of torch; the only file besides kernels and the queue that talks to one."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

import torch

from fleetridge.quantities import MIB
from fleetridge.report import Environment, Evidence, Gpu
from fleetridge_agent.busy.foreign_use import ForeignUse, GpuUse, Occupancy
from fleetridge_agent.busy.idle_check import idle_bytes, memory_use, readable_beside_processes
from fleetridge_agent.device.cuda_timing import ReplayedCopies, queued_ms, windows_ms
from fleetridge_agent.device.gemm_variants import Fill, Gemm, unsupported_reason
from fleetridge_agent.device.interface import Copies, DeviceDescription, Launch, UnsupportedError
from fleetridge_agent.device.kernels import (
    device_errors,
    flush_launch,
    gemm_operands,
    link_launches,
    require_correct,
    stream_launches,
)
from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.readings.evidence import Telemetry
from fleetridge_agent.readings.host import Host, cublas_version, host_readings
from fleetridge_agent.readings.nvml import Nvml, NvmlGpu
from fleetridge_agent.readings.nvml_telemetry import NvmlTelemetry, environment_readings, health_readings, processes
from fleetridge_agent.readings.optional_reading import count, model_of

# Several times the cache, as it may keep some of what was there in spite of new data; and at least so much that the
# flush (60 µs at 4 TB/s) outlasts what the host needs to queue a call.
_CACHES_PER_FLUSH = 4
_SMALLEST_FLUSH_BYTES = 256 * MIB

# Timed flushes, of which the fastest is not held up by anything.
_FLUSH_PROBES = 5

# First compute capability that has bfloat16; torch emulates it below.
_FIRST_WITH_BFLOAT16 = (8, 0)


def open_cuda(gpu: CudaGpu, nvml: Nvml | None, host: Host, environ: Mapping[str, str]) -> CudaDevice:
    """
    Take a gpu for measuring.

    Raises:
        NoDeviceError: this torch cannot use any gpu.
        SweepError: this gpu cannot be used; the reason says why, such as `busy` or `out_of_memory`.
    """
    if not torch.cuda.is_available():
        raise NoDeviceError(
            f"torch {torch.__version__} cannot use this gpu; install a build for CUDA (or ROCm) that fits the driver",
            reason="torch_without_cuda",
        )
    known = None if nvml is None else nvml.find(uuid=gpu.uuid, pci_bus_id=gpu.pci_bus_id)
    before = None if known is None else processes(known)
    readable = () if known is None else readable_beside_processes(known)
    with device_errors():
        torch.cuda.set_device(_torch_number(gpu))
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        occupancy = Occupancy(before, _use(known), readable)
        return CudaDevice(gpu, known, occupancy, environment=_environment(nvml, known, host, environ), environ=environ)


class CudaDevice:
    """One gpu, on the current CUDA device of this process; satisfies `interface.Device`."""

    def __init__(
        self,
        gpu: CudaGpu,
        known: NvmlGpu | None,
        occupancy: Occupancy,
        *,
        environment: Environment,
        environ: Mapping[str, str],
    ) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device())
        self._known = known
        self._occupancy = occupancy
        self._environ = environ
        self._telemetry = None if known is None else NvmlTelemetry(known)
        cache_bytes = environment.l2_bytes or 0
        self._flush = flush_launch(max(_SMALLEST_FLUSH_BYTES, _CACHES_PER_FLUSH * cache_bytes), self._device)
        capability = torch.cuda.get_device_capability(self._device)
        has_bfloat16 = torch.version.hip is not None or capability >= _FIRST_WITH_BFLOAT16
        self._description = DeviceDescription(
            kind="cuda",
            gpu=_identity(gpu, known, self._device),
            environment=environment,
            default_dtype="bfloat16" if has_bfloat16 else "float16",
            cache_bytes=cache_bytes,
            flush_ms=min(queued_ms(self._flush, self._flush, _FLUSH_PROBES)),
            burst_regime="burst",
            has_replay=True,
            has_link=True,
            evidence=model_of(Evidence, {} if known is None else health_readings(known)),
        )

    @property
    def description(self) -> DeviceDescription:
        """Identity, environment and traits."""
        return self._description

    @property
    def telemetry(self) -> Telemetry | None:
        """Readings by NVML, None where it does not know this gpu."""
        return self._telemetry

    def foreign_use(self) -> ForeignUse:
        """Who else was on this gpu before this process, or is now."""
        return self._occupancy.foreign_use(_use(self._known))

    def free_bytes(self) -> int:
        """Memory that could be allocated now, what torch holds for reuse included."""
        with device_errors():
            held_bytes = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
            return torch.cuda.mem_get_info(self._device)[0] + held_bytes

    @contextmanager
    def gemm(self, gemm: Gemm, fill: Fill) -> Iterator[Launch]:
        """Operands of one product, with TF32 switched as it asks."""
        self.require_supported(gemm)
        with _tf32(is_on=gemm.variant.dtype == "tf32"):
            with device_errors():
                torch.cuda.empty_cache()
                operands = gemm_operands(gemm, fill, self._device)
            yield operands.launch

    def check_output(self, gemm: Gemm, fill: Fill) -> float:
        """Compare a tile of the product with float64."""
        self.require_supported(gemm)
        with device_errors(), _tf32(is_on=gemm.variant.dtype == "tf32"):
            operands = gemm_operands(gemm, fill, self._device)
            return require_correct(operands, operands.launch)

    @contextmanager
    def streams(self, buffer_bytes: int, fill: Fill) -> Iterator[Mapping[str, Launch]]:
        """Stream kernels over three buffers."""
        with device_errors():
            torch.cuda.empty_cache()
            launches = stream_launches(buffer_bytes, fill, self._device)
        yield launches

    @contextmanager
    def copies(self, gemm: Gemm, fill: Fill, count: int) -> Iterator[Copies]:
        """Copies of the operands of one product, with TF32 switched as it asks."""
        with _tf32(is_on=gemm.variant.dtype == "tf32"):
            with device_errors():
                torch.cuda.empty_cache()
                copies = ReplayedCopies(gemm, fill, count, self._device)
            yield copies

    @contextmanager
    def links(self, buffer_bytes: int) -> Iterator[Mapping[str, Launch]]:
        """Copies between pinned memory of the host and the gpu's own."""
        with device_errors():
            launches = link_launches(buffer_bytes, self._device)
        yield launches

    def run(self, launch: Launch, calls: int) -> None:
        """Make untimed calls and wait for them."""
        with device_errors():
            for _ in range(calls):
                launch()
            torch.cuda.synchronize(self._device)

    def time(self, launch: Launch, calls: int, *, flushed: bool = True) -> tuple[float, ...]:
        """Time of each call in ms, queued behind flushes or behind each other."""
        with device_errors():
            return queued_ms(launch, self._flush, calls, flushed=flushed)

    def windows(self, launch: Launch, calls: int, *, ahead: int) -> Generator[float, None, None]:
        """Time in ms of each window of calls, back to back."""
        with device_errors():
            yield from windows_ms(launch, calls, ahead=ahead)

    def rest(self, seconds: float) -> None:
        """Leave the gpu idle."""
        time.sleep(seconds)

    def release(self) -> None:
        """Give memory back that is held for reuse."""
        gc.collect()
        with device_errors():
            torch.cuda.empty_cache()

    def require_supported(self, gemm: Gemm) -> None:
        """See that the gpu has units for a product, and torch a call."""
        why = unsupported_reason(
            gemm,
            capability=torch.cuda.get_device_capability(self._device),
            is_hip=torch.version.hip is not None,
            environ=self._environ,
        )
        if why is not None:
            raise UnsupportedError(why)


@contextmanager
def _tf32(*, is_on: bool) -> Iterator[None]:
    """
    Switch TF32 for float32 products.

    By the older of torch's two switches: it sets the newer one too, while the newer leaves the older behind and torch
    then refuses to multiply.
    """
    switches = torch.backends.cuda.matmul
    before = switches.allow_tf32
    switches.allow_tf32 = is_on
    try:
        yield
    finally:
        switches.allow_tf32 = before


def _use(known: NvmlGpu | None) -> GpuUse:
    """Use of the current gpu at this moment; memory that torch holds is ours."""
    if known is None:
        return GpuUse()
    own_bytes, memory = torch.cuda.memory_reserved(), memory_use(known)
    return GpuUse(
        processes=processes(known),
        other_bytes=None if memory is None else memory.used - own_bytes,
        spare_bytes=0 if memory is None else idle_bytes(memory.total),
    )


def _torch_number(gpu: CudaGpu) -> int:
    """Torch's number of the gpu: found by UUID, as other libraries may have numbered anew."""
    for number in range(torch.cuda.device_count()):
        uuid = str(getattr(torch.cuda.get_device_properties(number), "uuid", ""))
        if gpu.uuid is not None and uuid and gpu.uuid.endswith(uuid):
            return number
    return gpu.number


def _identity(gpu: CudaGpu, known: NvmlGpu | None, device: torch.device) -> Gpu:
    properties = torch.cuda.get_device_properties(device)
    values = {
        "uuid": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id,
        "index": _index(gpu, known),
        "device": gpu.device,
        "architecture": _architecture(properties),
        "memory_bytes": properties.total_memory,
        "sm_count": properties.multi_processor_count,
        "mig_profile": gpu.mig_profile,
        "partition": gpu.partition,
    }
    return model_of(Gpu, values)


def _index(gpu: CudaGpu, known: NvmlGpu | None) -> int | None:
    """Number in the driver's order; where the gpu has no UUID, any number is better than none to tell it apart."""
    if known is not None:
        return known.index
    return gpu.number if gpu.uuid is None else None


def _architecture(properties: object) -> str:
    if torch.version.hip is not None:
        return str(getattr(properties, "gcnArchName", "")).partition(":")[0]
    return f"sm_{getattr(properties, 'major', 0)}{getattr(properties, 'minor', 0)}"


def _environment(nvml: Nvml | None, known: NvmlGpu | None, host: Host, environ: Mapping[str, str]) -> Environment:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    switches = torch.backends.cuda.matmul
    values = {
        **host_readings(host, environ),
        "memory_bus_bits": count(getattr(properties, "memory_bus_width", None)),
        **({} if known is None else environment_readings(known)),
        "torch": torch.__version__,
        "runtime": f"hip {torch.version.hip}" if torch.version.hip else f"cuda {torch.version.cuda}",
        "driver": None if nvml is None else nvml.driver,
        "cublas": cublas_version(),
        "l2_bytes": count(getattr(properties, "L2_cache_size", None)),
        # Position while `float32` is measured; `tf32` is measured with the other one and has a roof of its own.
        "allow_tf32": False,
        "bf16_reduced_precision": switches.allow_bf16_reduced_precision_reduction,
        "fp16_reduced_precision": switches.allow_fp16_reduced_precision_reduction,
    }
    return model_of(Environment, values)
