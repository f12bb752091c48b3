"""What an error of torch means for a sweep: this shape, this way to multiply, or the device as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fleetridge_agent.device.contract import DeviceFaultError, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.errors import SweepError

# Torch gives allocation failures of its own allocator a type, those of CUDA, cuBLAS and the CPU a text only.
_MEMORY_MARKS = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "HIPBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")
_UNSUPPORTED_MARKS = ("STATUS_NOT_SUPPORTED", "STATUS_ARCH_MISMATCH")
_FAULT_MARKS = ("CUDA error", "HIP error", "cuDNN error")

# Words for programs, by what the driver says (CUDA Runtime API, cudaError_t).
_FAULT_REASONS = {
    "uncorrectable ECC": "ecc_uncorrectable",
    "illegal memory access": "illegal_memory_access",
    "unspecified launch failure": "launch_failure",
    "busy or unavailable": "busy",
    "system not yet initialized": "cuda_not_ready",
    "system has unsupported display driver": "driver_library_mismatch",
    "fallen off the bus": "gpu_lost",
}


@contextmanager
def device_errors() -> Iterator[None]:
    """Raise torch's errors as those of `device.py`; anything else that goes wrong is left as it is."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise meaning(error) from error


def meaning(error: RuntimeError | MemoryError) -> SweepError:
    """What an error of torch means for a sweep."""
    text = str(error)
    if isinstance(error, MemoryError) or any(mark in text for mark in _MEMORY_MARKS):
        return OutOfDeviceMemoryError(f"out of memory: {_first_line(text)}")
    if isinstance(error, NotImplementedError) or any(mark in text for mark in _UNSUPPORTED_MARKS):
        return UnsupportedError(_first_line(text))
    if any(mark in text for mark in _FAULT_MARKS) or type(error).__name__ == "AcceleratorError":
        return DeviceFaultError(_first_line(text), reason=_fault_reason(text))
    # Torch refused the call before the device saw it.
    return UnsupportedError(_first_line(text))


def _fault_reason(text: str) -> str:
    """Word for programs for what a driver says."""
    return next((reason for mark, reason in _FAULT_REASONS.items() if mark in text), "device_fault")


def _first_line(text: str) -> str:
    """The error itself; the lines after it are advice for programmers and a stack."""
    return text.strip().partition("\n")[0] or "no text"
